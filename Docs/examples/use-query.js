import { useEffect, useState } from "react";

/** The rows of a SELECT, now and after each change: const rows = useQuery(db, "SELECT * FROM cars WHERE seats > :n", { n: 4 }) */
export function useQuery(db, statement, args = {}) {
  const [rows, setRows] = useState([]);
  const key = JSON.stringify(args);
  useEffect(() => {
    const aborter = new AbortController();
    const follow = async () => {
      for await (const result of db.observe(statement, JSON.parse(key), { signal: aborter.signal })) setRows(result.rows);
    };
    follow().catch((error) => { if (!aborter.signal.aborted) console.error(error); });
    return () => aborter.abort();
  }, [db, statement, key]);
  return rows;
}
