//! How do numbers of a run reach TensorBoard? Event files: records framed as TFRecord, each an
//! `Event` message of TensorFlow's protocol buffers.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// An event file that grows by one record for each step.
pub struct EventLog {
    file: File,
}

impl EventLog {
    /// Begins a new file in `folder`. What files before it say of the step `next` and later ones
    /// is taken back: those steps are taken again.
    pub fn create(folder: &Path, next: i64) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // TensorBoard reads the files of a folder in the order of their names.
        let name = format!("events.out.tfevents.{:010}.{:09}.tandem", since.as_secs(), since.subsec_nanos());
        let path = folder.join(name);
        let file = File::options()
            .append(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("{} cannot be made", path.display()))?;
        let mut log = Self { file };
        log.write(0, |event| event.bytes(FILE_VERSION, b"brain.Event:2"))?;
        let mut session = Message::default();
        session.varint(STATUS, START);
        log.write(next, |event| event.bytes(SESSION_LOG, &session.0))?;
        Ok(log)
    }

    /// Adds the values of a step by their tags; those that are not finite are left out.
    pub fn scalars(&mut self, step: i64, values: &[(&str, f64)]) -> Result<()> {
        let mut summary = Message::default();
        for (tag, value) in values.iter().filter(|(_, value)| value.is_finite()) {
            let mut entry = Message::default();
            entry.bytes(TAG, tag.as_bytes());
            entry.float(SIMPLE_VALUE, *value as f32);
            summary.bytes(VALUE, &entry.0);
        }
        self.write(step, |event| event.bytes(SUMMARY, &summary.0))
    }

    fn write(&mut self, step: i64, fill: impl FnOnce(&mut Message)) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut event = Message::default();
        event.double(WALL_TIME, now.as_secs_f64());
        event.varint(STEP, step as u64);
        fill(&mut event);
        // One write: a reader meets whole records, or one that is cut off at the end.
        self.file.write_all(&framed(&event.0)).context("the event file cannot be written")?;
        Ok(())
    }
}

// Fields of `Event`, `SessionLog`, `Summary` and `Summary.Value`.
const WALL_TIME: u32 = 1;
const STEP: u32 = 2;
const FILE_VERSION: u32 = 3;
const SUMMARY: u32 = 5;
const SESSION_LOG: u32 = 7;
const STATUS: u32 = 1;
const START: u64 = 1;
const VALUE: u32 = 1;
const TAG: u32 = 1;
const SIMPLE_VALUE: u32 = 2;

/// A protocol buffer message, encoded field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.raw_varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn float(&mut self, field: u32, value: f32) {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

/// A TFRecord: length, its checksum, data, their checksum.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend_from_slice(&masked(crc32c(&length)).to_le_bytes());
    record.extend_from_slice(data);
    record.extend_from_slice(&masked(crc32c(data)).to_le_bytes());
    record
}

/// As TFRecord wants it, so that a checksum of data that hold checksums is a good one.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: records are a few hundred bytes.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= 0x82f6_3b78;
            }
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    /// A record as TensorFlow's own writer makes it: the version event of every event file, with
    /// the time 1.5.
    #[test]
    fn a_record_has_the_bytes_of_the_specification() {
        let mut event = Message::default();
        event.double(WALL_TIME, 1.5);
        event.bytes(FILE_VERSION, b"brain.Event:2");
        assert_eq!(event.0, b"\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0dbrain.Event:2");
        let record = framed(&event.0);
        assert_eq!(&record[..8], &24u64.to_le_bytes());
        assert_eq!(record.len(), 8 + 4 + 24 + 4);
    }
}
