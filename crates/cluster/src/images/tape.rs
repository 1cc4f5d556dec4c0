//! A reader and a writer of tar streams, as far as layers and image archives need them.
//!
//! Written here because extended attributes are binary values in pax records, and file capabilities may hold any byte:
//! the record's length must rule, not its line end. `unpack` reads layers with it, `archive` both reads and writes.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;
/// A pax header or a long name; real ones are a few hundred bytes.
const EXTENSION_SIZE_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Character,
    Block,
    Fifo,
    Sparse,
    /// A type without meaning for file systems, such as a volume label.
    Other,
}

/// One member's header, with its extensions applied.
#[derive(Debug, Clone)]
pub struct Entry {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub mtime_s: i64,
    pub mtime_ns: u32,
    pub device: (u32, u32),
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What the headers before a member say about it.
#[derive(Default, Clone)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads members one after the other; a member's content is read from the tape itself.
pub struct Tape<R> {
    inner: R,
    /// Content of the current member not read yet, and the padding behind it.
    left: u64,
    padding: u64,
    global: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<R: Read> Tape<R> {
    pub fn new(inner: R) -> Tape<R> {
        Tape { inner, left: 0, padding: 0, global: Vec::new() }
    }

    /// The stream behind the archive, wherever reading stopped.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// The next member, or `None` at the end of the archive.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let mut extensions = Extensions { records: self.global.clone(), ..Extensions::default() };
        loop {
            self.skip_rest()?;
            let Some(block) = self.header()? else { return Ok(None) };
            let size = number(&block[124..136])?;
            match block[156] {
                b'L' => extensions.path = Some(until_nul(&self.extension(size)?).to_vec()),
                b'K' => extensions.link = Some(until_nul(&self.extension(size)?).to_vec()),
                b'x' => extensions.records.extend(records(&self.extension(size)?)?),
                b'g' => {
                    let found = records(&self.extension(size)?)?;
                    self.global.extend(found.clone());
                    extensions.records.extend(found);
                }
                _ => return self.member(&block, size, extensions).map(Some),
            }
        }
    }

    fn member(&mut self, block: &[u8; BLOCK], size: u64, extensions: Extensions) -> io::Result<Entry> {
        let mut entry = Entry {
            path: extensions.path.unwrap_or_else(|| header_path(block)),
            link: extensions.link.unwrap_or_else(|| until_nul(&block[157..257]).to_vec()),
            kind: kind(block[156]),
            mode: (number(&block[100..108])? & 0o7777) as u32,
            uid: narrow(number(&block[108..116])?)?,
            gid: narrow(number(&block[116..124])?)?,
            size,
            mtime_s: number(&block[136..148])? as i64,
            mtime_ns: 0,
            device: (0, 0),
            xattrs: Vec::new(),
        };
        if matches!(entry.kind, Kind::Character | Kind::Block) {
            entry.device = (narrow(number(&block[329..337])?)?, narrow(number(&block[337..345])?)?);
        }
        for (key, value) in extensions.records {
            entry.apply(&key, value)?;
        }
        // Old archives mark folders only by their name.
        if entry.kind == Kind::File && entry.path.ends_with(b"/") {
            entry.kind = Kind::Directory;
        }
        if matches!(
            entry.kind,
            Kind::Symlink | Kind::HardLink | Kind::Directory | Kind::Character | Kind::Block | Kind::Fifo
        ) {
            entry.size = 0;
        }
        self.left = entry.size;
        self.padding = (BLOCK as u64 - entry.size % BLOCK as u64) % BLOCK as u64;
        Ok(entry)
    }

    /// Reads one header block; two empty ones, or the stream's end, end the archive.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.inner.read(&mut block[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(malformed("a header is cut short")),
                count => filled += count,
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let stated = number(&block[148..156])?;
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte }))
            .sum();
        if sum == stated { Ok(Some(block)) } else { Err(malformed("a header has a wrong checksum")) }
    }

    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > EXTENSION_SIZE_MAX {
            return Err(malformed("an extended header is too large"));
        }
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        let mut bytes = vec![0; size as usize];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        let rest = self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        let skipped = io::copy(&mut (&mut self.inner).take(rest), &mut io::sink())?;
        if skipped == rest { Ok(()) } else { Err(malformed("a member is cut short")) }
    }
}

impl<R: Read> Read for Tape<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        match self.inner.read(&mut buffer[..wanted])? {
            0 => Err(malformed("a member is cut short")),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

impl Entry {
    fn apply(&mut self, key: &[u8], value: Vec<u8>) -> io::Result<()> {
        match key {
            b"path" => self.path = value,
            b"linkpath" => self.link = value,
            b"size" => self.size = decimal(&value)?,
            b"uid" => self.uid = narrow(decimal(&value)?)?,
            b"gid" => self.gid = narrow(decimal(&value)?)?,
            b"mtime" => (self.mtime_s, self.mtime_ns) = time(&value)?,
            _ if key.starts_with(b"GNU.sparse.") => self.kind = Kind::Sparse,
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.retain(|(known, _)| known != name);
                    self.xattrs.push((name.to_vec(), value));
                }
            }
        }
        Ok(())
    }
}

fn kind(flag: u8) -> Kind {
    match flag {
        0 | b'0' | b'7' => Kind::File,
        b'1' => Kind::HardLink,
        b'2' => Kind::Symlink,
        b'3' => Kind::Character,
        b'4' => Kind::Block,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        b'S' => Kind::Sparse,
        _ => Kind::Other,
    }
}

/// The ustar prefix counts only in ustar headers; GNU headers keep times at its place.
fn header_path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&block[0..100]);
    let prefix = if &block[257..263] == b"ustar\0" { until_nul(&block[345..500]) } else { &[] };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal text, or a big-endian number when the first bit is set (GNU's way for large values).
fn number(field: &[u8]) -> io::Result<u64> {
    if field[0] & 0x80 != 0 {
        let mut value: u64 = if field[0] == 0xff { u64::MAX } else { u64::from(field[0] & 0x7f) };
        for byte in &field[1..] {
            value = (value << 8) | u64::from(*byte);
        }
        return Ok(value);
    }
    let text = field.iter().copied().skip_while(|byte| *byte == b' ').take_while(|byte| !matches!(byte, b' ' | 0));
    text.into_iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'7' => Ok((value << 3) | u64::from(byte - b'0')),
        _ => Err(malformed("a number is not octal")),
    })
}

fn narrow(value: u64) -> io::Result<u32> {
    u32::try_from(value).map_err(|_| malformed("a number is out of range"))
}

fn decimal(value: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("a pax number is not decimal"))
}

/// `seconds[.fraction]`; the fraction is kept to the nanosecond.
fn time(value: &[u8]) -> io::Result<(i64, u32)> {
    let text = std::str::from_utf8(value).map_err(|_| malformed("a pax time is not decimal"))?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = whole.parse().map_err(|_| malformed("a pax time is not decimal"))?;
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanoseconds: u32 = digits.parse().map_err(|_| malformed("a pax time is not decimal"))?;
    // A negative time's fraction counts downwards; the second below keeps it positive.
    match text.starts_with('-') && nanoseconds > 0 {
        true => Ok((seconds - 1, 1_000_000_000 - nanoseconds)),
        false => Ok((seconds, nanoseconds)),
    }
}

/// `<length> <key>=<value>\n`, where the length counts the whole record and the value may hold any byte.
fn records(mut data: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let broken = || malformed("a pax record is malformed");
    let mut found = Vec::new();
    while !data.is_empty() && data[0] != 0 {
        let space = data.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length = decimal(&data[..space])? as usize;
        if length <= space + 1 || length > data.len() || data[length - 1] != b'\n' {
            return Err(broken());
        }
        let record = &data[space + 1..length - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        found.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        data = &data[length..];
    }
    Ok(found)
}

fn malformed(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Writes a regular file; names here are short (`blobs/sha256/…`), so a plain ustar header is enough.
pub fn write_file(out: &mut impl Write, name: &str, size: u64, content: &mut impl Read) -> io::Result<()> {
    if name.len() > 100 || size >= 1 << 33 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too large for a plain tar header"));
    }
    let mut block = [0u8; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    let size_text = format!("{size:011o}\0");
    let fields: [(usize, &[u8]); 8] = [
        (100, b"0000644\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, size_text.as_bytes()),
        (136, b"00000000000\0"),
        (148, b"        "),
        (156, b"0"),
        (257, b"ustar\x0000"),
    ];
    for (at, field) in fields {
        block[at..at + field.len()].copy_from_slice(field);
    }
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&block)?;
    let copied = io::copy(&mut content.take(size), out)?;
    if copied != size {
        return Err(malformed("a file shrank while it was written"));
    }
    out.write_all(&[0; BLOCK][..(BLOCK - size as usize % BLOCK) % BLOCK])
}

/// Ends an archive.
pub fn write_end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_here_and_by_others() {
        let mut bytes = Vec::new();
        write_file(&mut bytes, "a/b", 3, &mut &b"xyz"[..]).expect("written");
        write_file(&mut bytes, "empty", 0, &mut io::empty()).expect("written");
        write_end(&mut bytes).expect("ended");
        let mut tape = Tape::new(&bytes[..]);
        let entry = tape.next_entry().expect("read").expect("member");
        assert_eq!((entry.path.as_slice(), entry.kind, entry.size, entry.mode), (&b"a/b"[..], Kind::File, 3, 0o644));
        let mut content = String::new();
        tape.read_to_string(&mut content).expect("content");
        assert_eq!(content, "xyz");
        assert_eq!(tape.next_entry().expect("read").expect("member").path, b"empty");
        assert!(tape.next_entry().expect("end").is_none());
        let mut other = tar::Archive::new(&bytes[..]);
        let names: Vec<_> = other
            .entries()
            .expect("tar")
            .map(|entry| entry.expect("entry").path().expect("path").into_owned())
            .collect();
        assert_eq!(names, [std::path::Path::new("a/b"), std::path::Path::new("empty")]);
    }

    #[test]
    fn pax_values_may_hold_line_ends() {
        let body = b"x\n12 fake=yes\n\0";
        let record = |key: &str, value: &[u8]| {
            let rest = key.len() + value.len() + 3;
            let length = if rest + 2 < 100 { rest + 2 } else { rest + 3 };
            [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
        };
        let data = [record("SCHILY.xattr.user.a", body), record("path", b"long")].concat();
        let found = records(&data).expect("records");
        assert_eq!(found, [(b"SCHILY.xattr.user.a".to_vec(), body.to_vec()), (b"path".to_vec(), b"long".to_vec())]);
        for broken in [&b"5 a=b\n"[..], b"x a=b\n", b"99 a=b\n", b"6 aab\n"] {
            assert!(records(broken).is_err());
        }
    }

    #[test]
    fn numbers_and_times_come_in_several_spellings() {
        assert_eq!(number(b"0000644\0").expect("octal"), 0o644);
        assert_eq!(number(b"   644 \0").expect("padded"), 0o644);
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 0]).expect("binary"), 256);
        assert!(number(b"00009\0").is_err());
        assert_eq!(time(b"12.5").expect("time"), (12, 500_000_000));
        assert_eq!(time(b"-1.25").expect("before 1970"), (-2, 750_000_000));
    }

    #[test]
    fn broken_archives_are_errors_not_panics() {
        let mut bytes = Vec::new();
        write_file(&mut bytes, "a", 3, &mut &b"xyz"[..]).expect("written");
        for cut in [1, 511, 513] {
            let mut tape = Tape::new(&bytes[..cut]);
            let first = tape.next_entry();
            assert!(first.is_err() || tape.next_entry().is_err(), "{cut}");
        }
        bytes[0] = b'b';
        assert!(Tape::new(&bytes[..]).next_entry().is_err());
    }
}
