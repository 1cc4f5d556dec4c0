//! DNS messages as bytes (RFC 1035, EDNS0 of RFC 6891): one question in, records out.
//!
//! Only what the pods' name server needs. Names of records that are the question's own point back to it; no other name is
//! compressed.

use std::net::Ipv4Addr;
use volley_plan::node::names::{Data, Record, Zone};

pub const A: u16 = 1;
const NS: u16 = 2;
pub const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const OPT: u16 = 41;
const ANY: u16 = 255;
const CLASS_IN: u16 = 1;
const HEADER_BYTES: usize = 12;
/// What a client takes over UDP that says nothing about it.
const UDP_BYTES_DEFAULT: usize = 512;
/// What we send over UDP at most: fits one packet of any network.
const UDP_BYTES_MAX: u16 = 1232;
/// Pods come and go; what clients remember about them must not last.
const TTL_SECONDS: u32 = 5;
/// A name has 255 bytes, so also at most this many labels; more means a loop of pointers.
const LABELS_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Fine = 0,
    Malformed = 1,
    Failure = 2,
    Missing = 3,
    Unsupported = 4,
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub id: u16,
    is_recursive: bool,
    /// Lower case, without a last dot.
    pub name: String,
    pub kind: u16,
    /// The question section as it came, case and all.
    question: Vec<u8>,
    /// The UDP size that the client takes, if it speaks EDNS0.
    extended: Option<u16>,
}

impl Query {
    /// Whether a record of this kind answers it; an alias answers everything.
    pub fn asks_for(&self, data: &Data) -> bool {
        let kind = kind(data);
        kind == CNAME || self.kind == ANY || self.kind == kind
    }
}

/// Reads a query; an error is the answer to send, if any may be sent.
pub fn parse(bytes: &[u8]) -> Result<Query, Option<Vec<u8>>> {
    let (Some(id), Some(flags)) = (number(bytes, 0), number(bytes, 2)) else { return Err(None) };
    if flags & 0x8000 != 0 {
        return Err(None);
    }
    let refuse = |code: Code| Err(Some(refusal(id, flags, code)));
    if flags & 0x7800 != 0 {
        return refuse(Code::Unsupported);
    }
    let counts: Option<Vec<u16>> = (4..HEADER_BYTES).step_by(2).map(|at| number(bytes, at)).collect();
    let Some([1, answers, authorities, extras]) = counts.as_deref() else { return refuse(Code::Malformed) };
    let Some((name, at)) = name(bytes, HEADER_BYTES) else { return refuse(Code::Malformed) };
    let Some(kind) = number(bytes, at) else { return refuse(Code::Malformed) };
    let Some(question) = bytes.get(HEADER_BYTES..at + 4) else { return refuse(Code::Malformed) };
    let records = records(bytes, at + 4, usize::from(*answers) + usize::from(*authorities) + usize::from(*extras));
    let extended = records.iter().find(|record| record.kind == OPT).map(|record| record.class);
    let is_recursive = flags & 0x0100 != 0;
    Ok(Query { id, is_recursive, name, kind, question: question.to_vec(), extended })
}

/// A header alone, for what could not be read.
fn refusal(id: u16, flags: u16, code: Code) -> Vec<u8> {
    let flags = 0x8000 | (flags & 0x7900) | code as u16;
    [id, flags, 0, 0, 0, 0].iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The name at a place, lower case, and the place behind it.
fn name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut labels, mut at, mut end) = (Vec::new(), start, None);
    for _label in 0..LABELS_MAX {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            return Some((labels.join("."), end.unwrap_or(at + 1)));
        }
        if length & 0xc0 == 0xc0 {
            end = end.or(Some(at + 2));
            at = usize::from(number(bytes, at)? & 0x3fff);
            continue;
        }
        if length > 63 {
            return None;
        }
        let label = bytes.get(at + 1..at + 1 + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + length;
    }
    None
}

/// A record of somebody else's message.
struct Found {
    name: String,
    kind: u16,
    class: u16,
    ttl: u32,
    /// Where its data is.
    data: std::ops::Range<usize>,
}

fn records(bytes: &[u8], start: usize, count: usize) -> Vec<Found> {
    let (mut found, mut at) = (Vec::new(), start);
    for _record in 0..count {
        let Some((name, after)) = name(bytes, at) else { break };
        let fixed = (number(bytes, after), number(bytes, after + 2), number(bytes, after + 8));
        let (Some(kind), Some(class), Some(length)) = fixed else { break };
        let ttl = bytes.get(after + 4..after + 8).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let data = after + 10..after + 10 + usize::from(length);
        if data.end > bytes.len() {
            break;
        }
        at = data.end;
        found.push(Found { name, kind, class, ttl, data });
    }
    found
}

/// The records of an upstream answer that lead on from an alias, in bytes of our own, and how many.
pub fn chased(message: &[u8]) -> (Vec<u8>, u16) {
    let mut sink = (Vec::new(), 0);
    let (Some(questions), Some(answers)) = (number(message, 4), number(message, 6)) else { return sink };
    let mut at = HEADER_BYTES;
    for _question in 0..questions {
        let Some((_, after)) = name(message, at) else { return sink };
        at = after + 4;
    }
    for found in records(message, at, usize::from(answers)) {
        let data = match found.kind {
            A | AAAA => message[found.data.clone()].to_vec(),
            CNAME => match name(message, found.data.start) {
                Some((target, _)) => encoded(&target),
                None => continue,
            },
            _ => continue,
        };
        put(&mut sink.0, &encoded(&found.name), found.kind, found.ttl, &data);
        sink.1 += 1;
    }
    sink
}

/// A question of our own about another name.
pub fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = [id, 0x0100, 1, 0, 0, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
    bytes.extend(encoded(name));
    bytes.extend([kind, CLASS_IN].iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label);
    }
    bytes.push(0);
    bytes
}

fn put(bytes: &mut Vec<u8>, name: &[u8], kind: u16, ttl: u32, data: &[u8]) {
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
    bytes.extend_from_slice(&ttl.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
    bytes.extend_from_slice(data);
}

/// An answer in the making.
pub struct Reply<'a> {
    query: &'a Query,
    zone: &'a Zone,
    code: Code,
    sections: [Section; 3],
}

/// Answers, authorities and further records: each record in bytes.
type Section = Vec<Vec<u8>>;

impl<'a> Reply<'a> {
    pub fn new(query: &'a Query, zone: &'a Zone, code: Code) -> Reply<'a> {
        Reply { query, zone, code, sections: Default::default() }
    }

    pub fn answer(&mut self, records: &[Record]) {
        let bytes: Vec<Vec<u8>> = records.iter().map(|record| self.record(record)).collect();
        self.sections[0].extend(bytes);
    }

    /// Takes records that are bytes already.
    pub fn answer_raw(&mut self, bytes: Vec<u8>, count: u16) {
        if count > 0 {
            // They go in as one, or not at all when there is no room; the count is kept right by empty companions.
            self.sections[0].push(bytes);
            self.sections[0].extend((1..count).map(|_| Vec::new()));
        }
    }

    pub fn add_further(&mut self, records: &[Record]) {
        let bytes: Vec<Vec<u8>> = records.iter().map(|record| self.record(record)).collect();
        self.sections[2].extend(bytes);
    }

    /// An answer of nothing says how long that is so: by the zone's SOA.
    fn close_empty(&mut self) {
        if self.sections[0].is_empty() && matches!(self.code, Code::Fine | Code::Missing) {
            let authority = Record { name: self.zone.domain.clone(), data: Data::Authority };
            let bytes = self.record(&authority);
            self.sections[1].push(bytes);
        }
    }

    fn record(&self, record: &Record) -> Vec<u8> {
        let data = match &record.data {
            Data::Address(address) => Ipv4Addr::octets(address).to_vec(),
            Data::Alias(target) | Data::Pointer(target) | Data::NameServer(target) => encoded(target),
            Data::Server { port, target } => {
                let numbers = [0u16, 100, *port];
                numbers.iter().flat_map(|number| number.to_be_bytes()).chain(encoded(target)).collect()
            }
            Data::Text(text) => std::iter::once(text.len().min(255) as u8).chain(text.bytes().take(255)).collect(),
            Data::Authority => self.authority(),
        };
        // The question begins right behind the header.
        let is_asked = record.name == self.query.name;
        let name = if is_asked { vec![0xc0, HEADER_BYTES as u8] } else { encoded(&record.name) };
        let mut bytes = Vec::new();
        put(&mut bytes, &name, kind(&record.data), TTL_SECONDS, &data);
        bytes
    }

    fn authority(&self) -> Vec<u8> {
        let domain = &self.zone.domain;
        let mut data = [encoded(&format!("ns.dns.{domain}")), encoded(&format!("hostmaster.{domain}"))].concat();
        let (serial, refresh, retry, expire) = (1u32, 7200, 1800, 86400);
        let numbers = [serial, refresh, retry, expire, TTL_SECONDS];
        data.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        data
    }

    /// The message, cut and marked as such if it is longer than the client takes over UDP.
    pub fn finish(mut self, is_udp: bool) -> Vec<u8> {
        self.close_empty();
        let limit = match self.query.extended {
            _ if !is_udp => usize::from(u16::MAX),
            Some(taken) => usize::from(taken.min(UDP_BYTES_MAX)).max(UDP_BYTES_DEFAULT),
            None => UDP_BYTES_DEFAULT,
        };
        let extension = self.query.extended.map(|_| {
            // The root's name, our size in place of a class, and no options.
            let [kind, size] = [OPT.to_be_bytes(), UDP_BYTES_MAX.to_be_bytes()];
            [&[0][..], &kind, &size, &[0; 6]].concat()
        });
        let mut room = limit - HEADER_BYTES - self.query.question.len() - extension.as_ref().map_or(0, Vec::len);
        let (mut body, mut counts, mut is_cut) = (Vec::new(), [0u16; 3], false);
        for (place, section) in self.sections.iter().enumerate() {
            for record in section {
                // Further records are a favour: leaving them out is no loss that the client must know of.
                if record.len() > room || is_cut {
                    is_cut |= place < 2;
                    break;
                }
                room -= record.len();
                body.extend_from_slice(record);
                counts[place] += 1;
            }
        }
        let recursion = if self.query.is_recursive { 0x0100 } else { 0 };
        let flags = 0x8480 | recursion | if is_cut { 0x0200 } else { 0 } | self.code as u16;
        let extras = counts[2] + u16::from(extension.is_some());
        let header = [self.query.id, flags, 1, counts[0], counts[1], extras];
        let mut bytes: Vec<u8> = header.iter().flat_map(|number| number.to_be_bytes()).collect();
        bytes.extend_from_slice(&self.query.question);
        bytes.extend_from_slice(&body);
        bytes.extend(extension.unwrap_or_default());
        bytes
    }
}

fn kind(data: &Data) -> u16 {
    match data {
        Data::Address(_) => A,
        Data::Alias(_) => CNAME,
        Data::Server { .. } => SRV,
        Data::Pointer(_) => PTR,
        Data::Text(_) => TXT,
        Data::NameServer(_) => NS,
        Data::Authority => SOA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let server = Ipv4Addr::new(10, 88, 0, 1);
        Zone { domain: "cluster.local".to_owned(), server, networks: Vec::new(), service_net: None }
    }

    fn addresses(count: u8) -> Vec<Record> {
        let record = |number| Record { name: "a.b".into(), data: Data::Address(Ipv4Addr::new(10, 0, 0, number)) };
        (0..count).map(record).collect()
    }

    fn with_extension(mut query: Vec<u8>, size: u16) -> Vec<u8> {
        query[11] = 1;
        query.extend([0, 0, 41]);
        query.extend(size.to_be_bytes());
        query.extend([0; 6]);
        query
    }

    #[test]
    fn a_query_is_read_with_its_case_kept_for_the_answer() {
        let query = parse(&question(7, "A.b", A)).unwrap();
        assert_eq!((query.name.as_str(), query.kind, query.extended), ("a.b", A, None));
        let zone = zone();
        let mut reply = Reply::new(&query, &zone, Code::Fine);
        reply.answer(&addresses(1));
        let bytes = reply.finish(true);
        assert_eq!(bytes[..12], [0, 7, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(&bytes[12..17], b"\x01A\x01b\0");
        assert_eq!(bytes[bytes.len() - 16..bytes.len() - 12], [0xc0, 12, 0, 1]);
    }

    #[test]
    fn what_does_not_fit_is_cut_and_marked() {
        let query = parse(&question(7, "a.b", A)).unwrap();
        let cut = |query: &Query, is_udp: bool| {
            let zone = zone();
            let mut reply = Reply::new(query, &zone, Code::Fine);
            reply.answer(&addresses(200));
            let bytes = reply.finish(is_udp);
            (bytes.len(), bytes[2] & 2 != 0, number(&bytes, 6).unwrap())
        };
        assert_eq!(cut(&query, true), (501, true, 30));
        assert_eq!(cut(&query, false), (3221, false, 200));
        let large = parse(&with_extension(question(7, "a.b", A), 4096)).unwrap();
        assert_eq!(large.extended, Some(4096));
        let (length, is_cut, count) = cut(&large, true);
        assert!(length <= 1232 && is_cut && count > 70, "{length} {count}");
    }

    #[test]
    fn nothing_found_carries_the_zone_and_an_extension_is_answered() {
        let query = parse(&with_extension(question(1, "x.cluster.local", AAAA), 1232)).unwrap();
        let bytes = Reply::new(&query, &zone(), Code::Missing).finish(true);
        assert_eq!(
            (bytes[3] & 15, number(&bytes, 6), number(&bytes, 8), number(&bytes, 10)),
            (3, Some(0), Some(1), Some(1))
        );
    }

    #[test]
    fn nonsense_is_refused_or_ignored() {
        assert_eq!(parse(&[1, 2]), Err(None));
        assert_eq!(parse(&refusal(1, 0, Code::Fine)), Err(None), "an answer is not answered");
        let mut update = question(1, "a", A);
        update[2] = 0x28;
        assert_eq!(parse(&update).unwrap_err().unwrap()[3], Code::Unsupported as u8);
        let mut looping = question(1, "a", A)[..12].to_vec();
        looping.extend([0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(parse(&looping).unwrap_err().unwrap()[3], Code::Malformed as u8);
        for length in 0..30 {
            let _either = parse(&with_extension(question(1, "a.b", A), 1232)[..length.min(30)]);
        }
    }

    #[test]
    fn an_alias_is_chased_through_compressed_answers() {
        let query = parse(&question(3, "a.b", A)).unwrap();
        let zone = zone();
        let mut reply = Reply::new(&query, &zone, Code::Fine);
        reply.answer(&[Record { name: "a.b".into(), data: Data::Alias("c.d".into()) }]);
        reply.answer(&[Record { name: "c.d".into(), data: Data::Address(Ipv4Addr::new(192, 0, 2, 7)) }]);
        let (bytes, count) = chased(&reply.finish(true));
        assert_eq!(count, 2);
        assert!(bytes.starts_with(b"\x01a\x01b\0\0\x05") && bytes.ends_with(&[192, 0, 2, 7]));
    }
}
