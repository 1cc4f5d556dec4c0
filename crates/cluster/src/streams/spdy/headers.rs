//! Header blocks: name-value lists in one zlib stream per direction, which lasts as long as the connection (spec K-SPDY-2).

use super::SpdyError;
use super::dictionary::DICTIONARY;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// A block inflates to at most this much; the blocks of real clients have about a hundred bytes.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// A stream has about four headers.
const PAIRS_MAX: usize = 64;
/// How much is inflated or deflated at a time.
const STEP_BYTES: usize = 1024;

/// Names are lower case on the wire; a value may hold several, separated by NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The receiving direction.
pub struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Self {
        Inflater(Decompress::new(true))
    }
}

impl Inflater {
    pub fn read(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        parse(&self.inflate(block)?).ok_or(SpdyError::Headers)
    }

    fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut plain = Vec::new();
        let mut step = [0u8; STEP_BYTES];
        loop {
            let (consumed, produced) = (self.0.total_in(), self.0.total_out());
            let result = self.0.decompress(block, &mut step, FlushDecompress::Sync);
            let consumed = (self.0.total_in() - consumed) as usize;
            let produced = (self.0.total_out() - produced) as usize;
            block = block.get(consumed..).ok_or(SpdyError::Headers)?;
            plain.extend_from_slice(&step[..produced]);
            if plain.len() > BLOCK_BYTES_MAX {
                return Err(SpdyError::Headers);
            }
            match result {
                Ok(flate2::Status::Ok | flate2::Status::BufError) => {}
                // A client never ends its header stream before the connection.
                Ok(flate2::Status::StreamEnd) => return Err(SpdyError::Headers),
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| SpdyError::Headers)?;
                    continue;
                }
                Err(_) => return Err(SpdyError::Headers),
            }
            if produced < step.len() {
                return if block.is_empty() { Ok(plain) } else { Err(SpdyError::Headers) };
            }
        }
    }
}

fn parse(plain: &[u8]) -> Option<Headers> {
    let mut rest = plain;
    let count = take_u32(&mut rest)? as usize;
    if count > PAIRS_MAX {
        return None;
    }
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((take_text(&mut rest)?, take_text(&mut rest)?));
    }
    Some(Headers(pairs))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_be_bytes(*head))
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let len = take_u32(rest)? as usize;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(String::from_utf8_lossy(head).into_owned())
}

/// The sending direction.
pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&DICTIONARY).expect("a fresh compressor takes a dictionary");
        Deflater(compress)
    }
}

impl Deflater {
    pub fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut plain = (headers.0.len() as u32).to_be_bytes().to_vec();
        for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&(text.len() as u32).to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        self.deflate(&plain)
    }

    fn deflate(&mut self, mut plain: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        let mut step = [0u8; STEP_BYTES];
        loop {
            let (consumed, produced) = (self.0.total_in(), self.0.total_out());
            self.0
                .compress(plain, &mut step, FlushCompress::Sync)
                .expect("deflating to a buffer in memory cannot fail");
            plain = &plain[(self.0.total_in() - consumed) as usize..];
            let produced = (self.0.total_out() - produced) as usize;
            block.extend_from_slice(&step[..produced]);
            if plain.is_empty() && produced < step.len() {
                return block;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        Headers(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    // K-SPDY-2
    #[test]
    fn blocks_share_one_stream_per_direction() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
        let first = headers(&[("streamtype", "error"), ("port", "8080"), ("requestid", "0")]);
        let blocks: Vec<Vec<u8>> = (0..50).map(|_| deflater.write(&first)).collect();
        assert!(blocks[1].len() < blocks[0].len(), "the second block refers to the first");
        for block in &blocks {
            assert_eq!(inflater.read(block), Ok(first.clone()));
        }
        assert_eq!(inflater.read(&deflater.write(&headers(&[]))), Ok(headers(&[])));
    }

    #[test]
    fn block_that_inflates_beyond_the_limit_is_refused() {
        let mut deflater = Deflater::default();
        let long = "a".repeat(BLOCK_BYTES_MAX);
        let block = deflater.write(&headers(&[("x", &long)]));
        assert!(block.len() < 1000);
        assert_eq!(Inflater::default().read(&block), Err(SpdyError::Headers));
    }

    #[test]
    fn long_values_cross_the_step() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
        for len in [STEP_BYTES - 13, STEP_BYTES - 1, STEP_BYTES, 3 * STEP_BYTES] {
            let text: String = (0..len).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
            let sent = headers(&[("x", &text)]);
            assert_eq!(inflater.read(&deflater.write(&sent)), Ok(sent));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn random_bytes_never_panic(block in proptest::collection::vec(any::<u8>(), 0..300), tail in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Inflater::default().read(&block);
            let mut inflater = Inflater::default();
            let mut good = Deflater::default().write(&headers(&[("a", "b")]));
            good.extend_from_slice(&tail);
            let _ = inflater.read(&good);
            let _ = parse(&block);
        }
    }
}
