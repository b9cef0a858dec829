//! Encodings other than Unicode's, by the names Python and the web have for them.
//!
//! Where the two read one name differently and every byte is a character, Python's reading counts: it is what
//! `read_text` shows. Multi-byte encodings are read as browsers read them. What a byte or a character lacks is said,
//! never replaced.

use encoding_rs::Encoding;
use std::borrow::Cow;

/// An encoding that is not Unicode's.
#[derive(Debug)]
pub(super) enum Legacy {
    /// As browsers read it.
    Web(&'static Encoding),
    /// As Python reads it, one byte a character.
    Bytes(Box<Bytes>),
}

/// A single-byte encoding: ASCII, and a table for the upper half.
#[derive(Debug)]
pub(super) struct Bytes {
    name: &'static str,
    upper: [Option<char>; 128],
}

impl Bytes {
    fn new(name: &'static str, upper: impl Fn(u8) -> Option<char>) -> Self {
        let mut table = [None; 128];
        for (byte, character) in (0x80..=0xff).zip(&mut table) {
            *character = upper(byte);
        }
        Bytes { name, upper: table }
    }

    fn character(&self, byte: u8) -> Option<char> {
        if byte.is_ascii() { Some(char::from(byte)) } else { self.upper[usize::from(byte - 0x80)] }
    }

    fn byte(&self, character: char) -> Option<u8> {
        if character.is_ascii() {
            return u8::try_from(character).ok();
        }
        (0x80..=0xff).zip(&self.upper).find(|(_, has)| **has == Some(character)).map(|(byte, _)| byte)
    }
}

/// Returns the encodings the web reads in its own way, as Python reads them; by any name Python has for them.
fn by_python_name(label: &str) -> Option<Bytes> {
    let words: Vec<&str> =
        label.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let control = |byte: u8| (byte < 0xa0).then(|| char::from(byte));
    Some(match words.join("_").to_ascii_lowercase().as_str() {
        "ascii" | "646" | "ansi_x3_4_1968" | "ansi_x3_4_1986" | "cp367" | "csascii" | "ibm367" | "iso646_us"
        | "iso_646_irv_1991" | "iso_ir_6" | "us" | "us_ascii" => Bytes::new("ascii", |_| None),
        "latin_1" | "latin1" | "latin" | "l1" | "8859" | "cp819" | "csisolatin1" | "ibm819" | "iso8859"
        | "iso88591" | "iso8859_1" | "iso_8859_1" | "iso_8859_1_1987" | "iso_ir_100" => {
            Bytes::new("iso-8859-1", |byte| Some(char::from(byte)))
        }
        "latin5" | "l5" | "csisolatin5" | "iso88599" | "iso8859_9" | "iso_8859_9" | "iso_8859_9_1989"
        | "iso_ir_148" => {
            Bytes::new("iso-8859-9", |byte| control(byte).or_else(|| of_web(encoding_rs::WINDOWS_1254, byte)))
        }
        "thai" | "iso885911" | "iso8859_11" | "iso_8859_11" | "iso_8859_11_2001" => {
            Bytes::new("iso-8859-11", |byte| control(byte).or_else(|| of_web(encoding_rs::WINDOWS_874, byte)))
        }
        // As the one before, without the no-break space.
        "tis_620" | "tis620" | "tis_620_0" | "tis_620_2529_0" | "tis_620_2529_1" | "iso_ir_166" => {
            Bytes::new("tis-620", |byte| match byte {
                0xa0 => None,
                _ => control(byte).or_else(|| of_web(encoding_rs::WINDOWS_874, byte)),
            })
        }
        // The web reads KOI8-RU, with two letters in the place of lines.
        "koi8_u" => Bytes::new("koi8-u", |byte| match byte {
            0xae => Some('╝'),
            0xbe => Some('╬'),
            _ => of_web(encoding_rs::KOI8_U, byte),
        }),
        _ => return None,
    })
}

fn of_web(encoding: &'static Encoding, byte: u8) -> Option<char> {
    let byte = [byte];
    let (text, malformed) = encoding.decode_without_bom_handling(&byte);
    if malformed { None } else { text.chars().next() }
}

impl Legacy {
    /// Finds a single-byte encoding that Python reads in its own way.
    pub(super) fn of_python(label: &str) -> Option<Self> {
        by_python_name(label).map(|table| Legacy::Bytes(Box::new(table)))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Legacy::Web(encoding) => encoding.name(),
            Legacy::Bytes(table) => table.name,
        }
    }

    /// Returns the text, and whether some bytes were none.
    pub(super) fn decode<'a>(&self, content: &'a [u8]) -> (Cow<'a, str>, bool) {
        match self {
            Legacy::Web(encoding) => encoding.decode_without_bom_handling(content),
            Legacy::Bytes(table) => {
                let mut malformed = false;
                let character = |&byte| {
                    let character = table.character(byte);
                    malformed |= character.is_none();
                    character.unwrap_or(char::REPLACEMENT_CHARACTER)
                };
                (Cow::Owned(content.iter().map(character).collect()), malformed)
            }
        }
    }

    /// Encodes text, or returns the first character that does not exist here.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        match self {
            Legacy::Web(encoding) => {
                let (bytes, _, unmappable) = encoding.encode(text);
                if unmappable {
                    let missing = text.chars().find(|character| encoding.encode(character.encode_utf8(&mut [0; 4])).2);
                    return Err(missing.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Ok(bytes.into_owned())
            }
            Legacy::Bytes(table) => {
                text.chars().map(|character| table.byte(character).ok_or(character)).collect::<Result<_, _>>()
            }
        }
    }

    /// Finds the byte offsets of places in the decoded text, given in rising order; `None` for a place inside what one
    /// sequence of bytes stands for.
    pub(super) fn offsets(&self, content: &[u8], cuts: &[usize]) -> Vec<Option<usize>> {
        match self {
            Legacy::Web(encoding) => web_offsets(content, encoding, cuts),
            Legacy::Bytes(table) => {
                let (mut at, mut out) = (0, 0);
                let mut place = |&cut: &usize| {
                    while out < cut && at < content.len() {
                        out += table.character(content[at]).unwrap_or(char::REPLACEMENT_CHARACTER).len_utf8();
                        at += 1;
                    }
                    (out == cut).then_some(at)
                };
                cuts.iter().map(&mut place).collect()
            }
        }
    }
}

fn web_offsets(content: &[u8], encoding: &'static Encoding, cuts: &[usize]) -> Vec<Option<usize>> {
    const BLOCK: usize = 4096;
    let mut found = Vec::with_capacity(cuts.len());
    let mut cuts = cuts.iter().copied().peekable();
    // One decoder runs a block ahead; the other goes byte by byte only through blocks that hold a cut.
    let (mut ahead, mut behind) =
        (encoding.new_decoder_without_bom_handling(), encoding.new_decoder_without_bom_handling());
    let mut buffer = vec![0_u8; 4 * BLOCK + 64];
    let (mut out, mut at) = (0, 0);
    while cuts.next_if(|&cut| cut == 0).is_some() {
        found.push(Some(0));
    }
    for block in content.chunks(BLOCK) {
        let written = ahead.decode_to_utf8(block, &mut buffer, false).2;
        if cuts.peek().is_none_or(|&cut| cut > out + written) {
            out += behind.decode_to_utf8(block, &mut buffer, false).2;
            at += block.len();
            continue;
        }
        for byte in block.chunks(1) {
            out += behind.decode_to_utf8(byte, &mut buffer, false).2;
            at += 1;
            while let Some(cut) = cuts.next_if(|&cut| cut <= out) {
                found.push((cut == out).then_some(at));
            }
        }
    }
    found.extend(cuts.map(|cut| (cut == out).then_some(at)));
    found
}
