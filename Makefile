# Every verb says what it does in `make help`. The work is in scripts/, so that each step also runs alone.

LISTEN ?= 127.0.0.1:4000
DATA ?= ./mimeo-data

.DEFAULT_GOAL := help
.PHONY: run demo test test-deep lint format bench fuzz simulate consistency system native python docs dist dist-check compose \
	compose-test faults clean help

run: ## Build and start all four services in one process (LISTEN=HOST:PORT, DATA=DIRECTORY)
	@scripts/setup build
	@MIMEO_BUILD_COMMIT=$$(scripts/commit) scripts/build --product mimeo
	@exec .build/release/mimeo serve --data "$(DATA)" --listen "$(LISTEN)"

demo: ## 13,000 real documents, two peers, 400 conflicting edits: one process, then four behind nginx
	@scripts/setup build system
	@scripts/build
	@MIMEO_BIN=.build/release python3 Tests/Samples/demo.py

test: ## Everything that must pass: lint, build, Swift tests, simulator, system tests; a sample of each campaign
	@scripts/setup build postgres system compose
	@scripts/with-postgres scripts/test

test-deep: ## The same with every campaign in full, hours of it; the simulator, the fuzz targets and the packages too
	@scripts/setup build pack postgres cluster system compose engine fuzz
	@scripts/with-postgres scripts/test deep

bench: ## Measure everything beside what one would use instead (Tests/Benchmarks/RESULTS.md)
	@scripts/setup build postgres system bench
	@scripts/bench-documents
	@scripts/bench-queries
	@scripts/bench-sessions
	@scripts/bench-sdk
	@scripts/bench-native
	@scripts/bench-tokens
	@scripts/with-postgres scripts/bench-log
	@scripts/bench-network
	@scripts/bench-http
	@scripts/bench-server
	@scripts/bench-capacity
	@scripts/bench-deletions
	@scripts/build --product mimeo
	@MIMEO_BIN=.build/release python3 Tests/Benchmarks/bench.py
	@MIMEO_BIN=.build/release python3 Tests/Benchmarks/logins.py
	@MIMEO_BIN=.build/release python3 Tests/Benchmarks/account_logins.py
	@MIMEO_BIN=.build/release scripts/bench-attachments

fuzz: ## Untrusted bytes against every decoder and the query language (FUZZ_SECONDS=30 for each target)
	@scripts/setup build fuzz
	@scripts/fuzz

simulate: ## Peers, replicators and a log in virtual time (SEEDS=200 histories, FROM=100001; SEED=N shows one)
	@scripts/setup build
	@scripts/simulate

consistency: ## Every promise tried from outside under faults (MINUTES=1 SEED=N TOPOLOGY=one|services|peers|reaping|both|links)
	@scripts/setup build postgres system
	@scripts/build
	@scripts/consistency

system: ## Only the system tests: real executables, killed, restarted and sent malformed input
	@scripts/setup build system
	@scripts/build
	@python3 Tests/SystemTests

native: ## libmimeo for other languages, shared and static, with its header, in .build/native
	@scripts/setup build
	@scripts/build-release --product MimeoC
	@scripts/native --static .build-release/release

python: ## The Python package with libmimeo within, a wheel in .build/python
	@scripts/setup build
	@scripts/build-release --product MimeoC
	@scripts/native .build-release/release
	@scripts/python-wheel .build/native/libmimeo.so .build/python

docs: ## The SDK's reference as a web page, in .build/docs
	@scripts/setup build
	@scripts/docs

dist: ## Everything that is given to people, in .build/dist: tarball, Debian package, image, bill of materials
	@scripts/setup build pack
	@scripts/build-release --product mimeo
	@scripts/dist

dist-check: ## What is in .build/dist on machines that have nothing else (BEFORE_BIN=FOLDER: an upgrade)
	@scripts/setup build system postgres engine
	@scripts/with-postgres python3 packaging/check.py $(if $(BEFORE_BIN),--before "$(BEFORE_BIN)")

compose: ## The services in containers, with PostgreSQL and nginx (needs a running Docker, and an image: make dist)
	@scripts/setup compose
	@compose/secrets
	@compose/load
	@docker-compose -f compose/compose.yaml up

compose-test: ## Containers of what is in .build/dist: the tour, a fail-over, a restore (BEFORE=CHECKOUT: an upgrade)
	@scripts/setup build system compose engine
	@python3 compose/check.py $(if $(BEFORE),--before "$(BEFORE)")

faults: ## Forty faults in containers of what is in .build/dist: Docs/faults.md, an hour (ONLY=WORD chooses)
	@scripts/setup build system compose engine
	@python3 Tests/Faults --page Docs/faults.md $(if $(ONLY),--only "$(ONLY)")

lint: ## Check the formatting of every Swift file
	@scripts/setup build
	@scripts/lint

format: ## Format every Swift file in place
	@scripts/setup build
	@scripts/lint --fix

clean: ## Remove build products (the data in ./mimeo-data stays)
	@swift package clean
	@rm -rf .build-release .build/dist

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
