/// Letters and digits that people take for one another, after the confusables of Unicode (UTS 39).
///
/// Only folded ones stand here: names are shown folded, so a capital letter is never seen. A text whose
/// letters are all replaced by the first of their group is equal for names that look alike.
enum LookAlikes {
    /// The text with each letter replaced by the first of its group.
    static func replaced(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            // Two letters that look like one.
            case "m": result += "rn"
            default: result.unicodeScalars.append(first[scalar] ?? scalar)
            }
        }
        return result
    }

    private static let first: [Unicode.Scalar: Unicode.Scalar] = {
        var first: [Unicode.Scalar: Unicode.Scalar] = [:]
        for group in groups.split(whereSeparator: \.isWhitespace) {
            let scalars = Array(group.unicodeScalars)
            for other in scalars.dropFirst() { first[other] = scalars[0] }
        }
        return first
    }()

    /// Groups, the letter that stands for the others first.
    private static let groups = """
        2ᒿꛯ 3𑣊𖼻 4Ꮞ 6бᏮ𑣕 7𑣆 8ȣ৪੪𐌚 9৭੧୨൭𑣌𑣖 aɑαа bᏏᑲᖯ cсᴄⲥ𐐽 dԁᏧᑯꓒ eеҽꬲ fքẝꞙꬵ gƍɡցᶃ hһհᏂ iıɩɪιіӏᎥꙇ𑣃 jϳј
        l1ǀ۱ᛁⵏꓲ𐊊𐌉𐌠𖼨 nոռ o0οσоօ۵०੦૦௦౦೦ഠ൦๐໐ဝ၀ჿᴏᴑⲟꬽ𐐬𐓪𑣈𑣗 pρрⲣ qԛգզ rгᴦⲅꭇꭈ sƽѕꜱ𐑈𑣁 uʋυսᴜꞟꭎꭒ𐓶𑣘 vνѵᴠ𑜆𑣀
        wɯѡԝաᴡ𑜊𑜎𑜏 xхᕁᕽ yɣʏγуүყᶌỿꭚ𑣜 zᴢ𑣄 åȧ þƿϸ ăǎ ĕě ğǧ ģǵ ĭǐ ĸκкᴋⲕ ŏǒ ŭǔ ƅь ƨϩᴤꙅ ƫţțᎿ ǝəә ȝʒӡჳⳍꝫ ȷյ
        ɋᶐ ɔͻᴐↄ𐑋 ɛεєԑⲉꞓ𐐩𑣎 ɜзᴈ ɞ𐑂 ɢԍ ɰպሣ ɲņ ɷ𐐿 ɸφфⲫ ʃꭍ ʌᴧ𐓘 ʍмᴍ ʘⵙ ʙв ʚꞝ𐐪 ʜн ʟⳑ𐑃 ʡꛍ ʿՙ ͷиᴎ𐑍 ͽꜿ δծᕷẟ λ𐓛
        πпᴨ τтᴛ χⲭꭓꭕ ψѱ𐓹 ωⲱꙍꞷ ϗⳤ йѝ лᴫ шⲽ яᴙ љꭠ ҷӌ ձኔ ऽઽ २૨ ३૩ ४૪ ८૮ ॱൎ ঘ𑒒 চ𑒔 জ𑒖 ঞ𑒘 ট𑒙 ড𑒛 ণ𑒪 ত𑒞 থ𑒟
        দ𑒠 ধ𑒡 ন𑒢 প𑒣 ব𑒩 ম𑒧 য𑒨 র𑒫 ল𑒝 ষ𑒭 স𑒮 ঽ𑓄 ১𑓑 ২𑓒 ৬𑓖 அ௮ ஈர உ௨ഉ எ௭ ஐஜജ க௧ ச௪ ணണ ய௰ ழഴ ஶശ అಅ ఆಆ ఇಇ ఒಒ
        జಜ ఞಞ ణಣ యಯ ఱಱ లಲ ౧೧ ౨೨ ౯೯ ഞൡ രറ ජ෪ ද෫ ขฃ คดต ฆม จຈ ชซ ฎฏ ฑท บບ ปປ ฝຝ พພ ฟຟ ภฦ ยຍ าๅ རཪ ၁ၥ
        ᄀᆨ ᄂᆫ ᄃᆮ ᄅᆯ ᄆᆷ ᄇᆸ ᄉᆺ ᄋᆼ ᄌᆽ ᄎᆾ ᄏᆿ ᄐᇀ ᄑᇁ ᄒᇂ ᅀᇫ ᅌᇰ ᅙᇹ ᅳー一ꟷ ᅵ丨 Ꮿῶ ᐡᓑ ᐩᕀ ᒉᘃ ᒐᘂ ᓓᘄ ᓚᘇ ᕃᘢ ᕆᘣ ᕊᘤ ᖷꟻ
        ᗡꓷ ᙠꓭ ᚹꚰ ᚼᛡ ᚽᛂ ᛜ𐊔 ᛯⵣ អឣ ᠵᡕ ᡜᢖ ᣛᣵ ᦞ᧐ ᦱ᧑ ᩅ᪀᪐ ᬍ᭒ ᬑ᭓ ᬨ᭘ ᴘᴩ ⰿꦒ ⵀ𐊸 へヘ イ亻 エ工 カ力 タ夕 ト卜 ニ二 ハ八 ロ口囗 㖈䎛
        㘽㦳 㩁搉 㫚曶 㬵胶 㬺幐 㬻䐠 㮣槩 䀹鿃 䀿晣 䑃朦 䚶訞 併倂 値值 啓啟 土士 塡填 墫壿 媯嬀 帡帲 戶戸 晚晩 朌肦 朏胐 朐胊 朓脁 朘脧 朣膧 杮柿 榝樧 溈潙 研硏
        絕絶 胼腁 蒍蔿 蘷虁 訮詽 讆讏 豜豣 赿趆 跥跺 躗躛 軿輧 郎郞 鎭鎮 隷隸 鹂鹃 黑黒 ꓶ𖼦 ꙩ𐓫 ꜧꞕ ꞛ𐐺 ꣻ𑇜 ꦝꦣ ꨁ꩓ ꨣ꩖ ꭑṃ 𐎂𐏑 𐎓𐏓 𐎚𒀸 𐒆𐒠 𑖂𑗘𑗙
        𑖃𑗚 𑖄𑗛
        """
}
