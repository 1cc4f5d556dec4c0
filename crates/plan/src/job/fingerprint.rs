//! Short names made from long texts: the same text gives the same name, so a repeated step makes no second object.

/// FNV-1a, 64 bits.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Twelve lower-case letters and digits that stand for the text.
pub fn suffix(text: &str) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rest = fingerprint(text);
    let mut letters = String::new();
    for _ in 0..12 {
        letters.push(char::from(LETTERS[usize::try_from(rest % 36).unwrap_or(0)]));
        rest /= 36;
    }
    letters
}
