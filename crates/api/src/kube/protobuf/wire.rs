//! The protobuf wire itself: field numbers and payloads, nothing about types.

/// What stands behind one field number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

const CUT_OFF: &str = "unexpected EOF";

impl<'a> Payload<'a> {
    pub fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::Varint(_) | Payload::Fixed64(_) | Payload::Fixed32(_) => Err("proto: wrong wireType".to_owned()),
        }
    }

    pub fn text(self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "proto: invalid UTF-8 string".to_owned())
    }

    pub fn varint(self) -> Result<u64, String> {
        match self {
            Payload::Varint(number) => Ok(number),
            Payload::Bytes(_) | Payload::Fixed64(_) | Payload::Fixed32(_) => Err("proto: wrong wireType".to_owned()),
        }
    }

    pub fn double(self) -> Result<f64, String> {
        match self {
            Payload::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Payload::Bytes(_) | Payload::Varint(_) | Payload::Fixed32(_) => Err("proto: wrong wireType".to_owned()),
        }
    }
}

/// Reads the fields of one message in order.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Reader { rest: message }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field, or none at the end of the message.
    pub fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| format!("proto: illegal tag {}", tag >> 3))?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT_OFF)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok(Some((number, payload)))
    }

    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(*taken)
    }
}
