//! The preset dictionary of SPDY/3 header blocks: a constant of the protocol, built from its words.

use std::sync::LazyLock;

/// Each word stands behind its length, as in a header block.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding", "accept-language",
    "accept-ranges", "age", "allow", "authorization", "cache-control", "connection", "content-base", "content-encoding",
    "content-language", "content-length", "content-location", "content-md5", "content-range", "content-type", "date", "etag",
    "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
    "last-modified", "location", "max-forwards", "pragma", "proxy-authenticate", "proxy-authorization", "range", "referer",
    "retry-after", "server", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning",
    "www-authenticate", "method", "get", "status", "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive",
    "origin",
];

/// What follows the words, without lengths.
#[rustfmt::skip]
const TAIL: &[&str] = &[
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request", "401 Unauthorized",
    "403 Forbidden", "404 Not Found", "500 Internal Server Error", "501 Not Implemented", "503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,public",
    "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

pub static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    for word in WORDS {
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    TAIL.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    bytes
});

#[cfg(test)]
mod tests {
    use super::*;

    // K-SPDY-2
    #[test]
    fn dictionary_has_the_length_and_checksum_of_the_protocol() {
        let (mut low, mut high) = (1u32, 0u32);
        for byte in DICTIONARY.iter() {
            low = (low + u32::from(*byte)) % 65521;
            high = (high + low) % 65521;
        }
        assert_eq!(DICTIONARY.len(), 1423);
        assert_eq!(high << 16 | low, 0xe3c6_a7c2);
    }
}
