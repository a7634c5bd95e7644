//! How does a block of quantised weights become f32?
//!
//! The block formats are those of ggml. Each holds 32 weights that share an f16
//! scale `d` (and, for Q4_1, an f16 minimum `m`); in the 4-bit formats the low
//! nibbles hold weights 0–15 of the block and the high nibbles weights 16–31.

use half::{bf16, f16};

/// Weights in one quantised block.
const BLOCK: usize = 32;

/// A number format of GGUF that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q8_0,
}

impl Format {
    /// The names of all formats, for error messages.
    pub const KNOWN: &'static str = "F32, F16, BF16, Q4_0, Q4_1, Q8_0";

    /// The format with ggml's number `code`.
    pub fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            30 => Self::BF16,
            _ => return None,
        })
    }

    /// ggml's name of a number, known here or not.
    pub fn name_of_code(code: u32) -> String {
        let name = match code {
            6 => "Q5_0",
            7 => "Q5_1",
            9 => "Q8_1",
            10 => "Q2_K",
            11 => "Q3_K",
            12 => "Q4_K",
            13 => "Q5_K",
            14 => "Q6_K",
            15 => "Q8_K",
            _ => return format!("ggml type {code}"),
        };
        name.into()
    }

    /// Weights in a block and bytes of a block.
    fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::BF16 => (1, 2),
            Self::Q4_0 => (BLOCK, 2 + BLOCK / 2),
            Self::Q4_1 => (BLOCK, 4 + BLOCK / 2),
            Self::Q8_0 => (BLOCK, 2 + BLOCK),
        }
    }

    /// Bytes that `elements` weights take; `None` if they do not fill whole blocks.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let (weights, bytes) = self.block();
        if !elements.is_multiple_of(weights as u64) {
            return None;
        }
        (elements / weights as u64).checked_mul(bytes as u64)
    }

    /// The weights in `bytes`, which hold whole blocks.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let (weights, block_bytes) = self.block();
        let mut out = Vec::with_capacity(bytes.len() / block_bytes * weights);
        for block in bytes.chunks_exact(block_bytes) {
            match self {
                Self::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Self::F16 => out.push(half_at(block, 0)),
                Self::BF16 => out.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Self::Q4_0 => {
                    let scale = half_at(block, 0);
                    nibbles(&block[2..], &mut out, |quant| (f32::from(quant) - 8.0) * scale);
                }
                Self::Q4_1 => {
                    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
                    nibbles(&block[4..], &mut out, |quant| f32::from(quant) * scale + minimum);
                }
                Self::Q8_0 => {
                    let scale = half_at(block, 0);
                    out.extend(block[2..].iter().map(|&quant| f32::from(quant as i8) * scale));
                }
            }
        }
        out
    }
}

fn half_at(block: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

fn nibbles(packed: &[u8], out: &mut Vec<f32>, value: impl Fn(u8) -> f32) {
    out.extend(packed.iter().map(|&byte| value(byte & 0x0f)));
    out.extend(packed.iter().map(|&byte| value(byte >> 4)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, bytes: &[u8], expected: &[(usize, f32)]) {
        let got = format.decode(bytes);
        assert_eq!(Some(bytes.len() as u64), format.bytes(got.len() as u64));
        for &(index, value) in expected {
            assert_eq!(got[index], value, "{format:?}[{index}]");
        }
    }

    #[test]
    fn blocks_decode_to_the_values_of_their_definition() {
        let half = |value: f32| f16::from_f32(value).to_le_bytes();
        // Byte i of the packed half holds nibble i (low) and nibble 15 - i (high).
        let packed: Vec<u8> = (0..16u8).map(|i| i | ((15 - i) << 4)).collect();

        check(Format::F32, &1.5f32.to_le_bytes(), &[(0, 1.5)]);
        check(Format::F16, &half(-0.25), &[(0, -0.25)]);
        check(Format::BF16, &bf16::from_f32(3.0).to_le_bytes(), &[(0, 3.0)]);
        check(
            Format::Q4_0,
            &[&half(0.5)[..], &packed].concat(),
            &[(0, -4.0), (15, 3.5), (16, 3.5), (31, -4.0)],
        );
        check(
            Format::Q4_1,
            &[&half(0.5)[..], &half(-1.0), &packed].concat(),
            &[(0, -1.0), (15, 6.5), (16, 6.5), (31, -1.0)],
        );
        let signed: Vec<u8> = (0..32i8).map(|i| (i - 16) as u8).collect();
        check(Format::Q8_0, &[&half(0.25)[..], &signed].concat(), &[(0, -4.0), (16, 0.0), (31, 3.75)]);
    }

    #[test]
    fn a_count_that_does_not_fill_its_blocks_has_no_size() {
        assert_eq!(Format::Q4_1.bytes(33), None);
        assert_eq!(Format::Q4_1.bytes(64), Some(40));
        assert_eq!(Format::Q8_0.bytes(u64::MAX - 31), None);
    }
}
