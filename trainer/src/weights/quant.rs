//! How does a block of quantised weights become f32?
//!
//! The block formats are those of ggml. The small ones hold 32 weights that share an f16
//! scale `d` (and, for Q4_1 and Q5_1, an f16 minimum `m`); the low nibbles hold weights 0–15
//! of the block and the high nibbles weights 16–31. Those of K hold 256 weights with an
//! own scale for each 16 or 32 of them.

use half::{bf16, f16};

/// Weights in one quantised block, and in one of the K formats.
const BLOCK: usize = 32;
const SUPER_BLOCK: usize = 256;

/// A number format of GGUF that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Format {
    /// The names of all formats, for error messages.
    pub const KNOWN: &'static str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

    /// As llama.cpp spells it.
    pub fn name(self) -> String {
        format!("{self:?}").replacen('K', "_K", 1)
    }

    /// The format with ggml's number `code`.
    pub fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::BF16,
            _ => return None,
        })
    }

    /// ggml's name of a number, known here or not.
    pub fn name_of_code(code: u32) -> String {
        let name = match code {
            9 => "Q8_1",
            10 => "Q2_K",
            11 => "Q3_K",
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
            Self::Q5_0 => (BLOCK, 2 + 4 + BLOCK / 2),
            Self::Q5_1 => (BLOCK, 4 + 4 + BLOCK / 2),
            Self::Q8_0 => (BLOCK, 2 + BLOCK),
            Self::Q4K => (SUPER_BLOCK, 4 + SCALES + SUPER_BLOCK / 2),
            Self::Q5K => (SUPER_BLOCK, 4 + SCALES + SUPER_BLOCK / 8 + SUPER_BLOCK / 2),
            Self::Q6K => (SUPER_BLOCK, SUPER_BLOCK / 2 + SUPER_BLOCK / 4 + SUPER_BLOCK / 16 + 2),
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
                Self::Q5_0 => {
                    let scale = half_at(block, 0);
                    fives(&block[2..6], &block[6..], &mut out, |quant| (f32::from(quant) - 16.0) * scale);
                }
                Self::Q5_1 => {
                    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
                    fives(&block[4..8], &block[8..], &mut out, |quant| f32::from(quant) * scale + minimum);
                }
                Self::Q8_0 => {
                    let scale = half_at(block, 0);
                    out.extend(block[2..].iter().map(|&quant| f32::from(quant as i8) * scale));
                }
                Self::Q4K => {
                    let (head, low) = block.split_at(4 + SCALES);
                    k_block(head, &[], low, &mut out);
                }
                Self::Q5K => {
                    let (head, rest) = block.split_at(4 + SCALES);
                    let (high, low) = rest.split_at(SUPER_BLOCK / 8);
                    k_block(head, high, low, &mut out);
                }
                Self::Q6K => q6_block(block, &mut out),
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

/// Nibbles with a fifth bit each: bit `j` of `high` belongs to weight `j`.
fn fives(high: &[u8], packed: &[u8], out: &mut Vec<f32>, value: impl Fn(u8) -> f32) {
    let fifth = |weight: usize| (high[weight / 8] >> (weight % 8) & 1) << 4;
    out.extend(packed.iter().enumerate().map(|(at, &byte)| value(byte & 0x0f | fifth(at))));
    out.extend(packed.iter().enumerate().map(|(at, &byte)| value(byte >> 4 | fifth(at + 16))));
}

/// Bytes of the packed scales and minima of Q4_K and Q5_K: eight of each, in 6 bits.
const SCALES: usize = 12;

/// The scale and the minimum of 32 weights.
fn scale_and_minimum(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, minimum) = match group {
        0..4 => (packed[group] & 63, packed[group + 4] & 63),
        _ => (
            packed[group + 4] & 0x0f | packed[group - 4] >> 6 << 4,
            packed[group + 4] >> 4 | packed[group] >> 6 << 4,
        ),
    };
    (f32::from(scale), f32::from(minimum))
}

/// Q4_K, and Q5_K with the fifth bits in `high`. Of each 32 bytes the low nibbles are 32 weights and
/// the high nibbles the next 32.
fn k_block(head: &[u8], high: &[u8], low: &[u8], out: &mut Vec<f32>) {
    let (scale, minimum) = (half_at(head, 0), half_at(head, 2));
    for group in 0..SUPER_BLOCK / BLOCK {
        let (own_scale, own_minimum) = scale_and_minimum(&head[4..], group);
        let (scale, minimum) = (scale * own_scale, minimum * own_minimum);
        let bytes = &low[group / 2 * BLOCK..][..BLOCK];
        out.extend(bytes.iter().enumerate().map(|(at, &byte)| {
            let nibble = if group % 2 == 0 { byte & 0x0f } else { byte >> 4 };
            let fifth = high.get(at).map_or(0, |bits| (bits >> group & 1) << 4);
            scale * f32::from(nibble | fifth) - minimum
        }));
    }
}

/// Q6_K: 128 bytes of low nibbles, 64 of pairs of high bits, 16 signed scales, and the f16 scale of all.
fn q6_block(block: &[u8], out: &mut Vec<f32>) {
    let (low, rest) = block.split_at(SUPER_BLOCK / 2);
    let (high, rest) = rest.split_at(SUPER_BLOCK / 4);
    let (scales, scale) = rest.split_at(SUPER_BLOCK / 16);
    let scale = half_at(scale, 0);
    for half in 0..2 {
        for quarter in 0..4 {
            for at in 0..BLOCK {
                let byte = low[half * 64 + quarter % 2 * BLOCK + at];
                let nibble = if quarter < 2 { byte & 0x0f } else { byte >> 4 };
                let bits = high[half * BLOCK + at] >> (2 * quarter) & 3;
                let own = scales[half * 8 + quarter * 2 + at / 16] as i8;
                out.push(scale * f32::from(own) * (f32::from(nibble | bits << 4) - 32.0));
            }
        }
    }
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

    /// The values are those of llama.cpp's own Python package, `gguf`, for the same bytes.
    #[test]
    fn larger_blocks_decode_as_llama_cpp_decodes_them() {
        let check = |format: Format, bytes: usize, halves: &[usize], expected: &[(usize, f32)], sum: f64| {
            let mut block: Vec<u8> = (0..bytes).map(|i| (i * 37 + 11) as u8).collect();
            for (at, value) in halves.iter().zip([0.5, -1.25]) {
                block[*at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
            }
            check(format, &block, expected);
            let all: f64 = format.decode(&block).iter().map(|value| f64::from(*value)).sum();
            assert_eq!(all, sum, "{format:?}");
        };
        check(Format::Q5_0, 22, &[0], &[(0, 4.5), (1, -1.0), (15, -6.0), (16, 7.0), (31, 0.5)], 7.5);
        check(
            Format::Q5_1,
            24,
            &[0, 2],
            &[(0, 8.25), (1, 10.75), (15, 13.75), (16, 8.25), (31, 1.25)],
            212.5,
        );
        check(
            Format::Q4K,
            144,
            &[0, 2],
            &[
                (0, 234.25),
                (1, 63.75),
                (31, 156.75),
                (32, 40.0),
                (63, 56.0),
                (100, 98.5),
                (128, 229.5),
                (255, 76.75),
            ],
            39_892.0,
        );
        check(
            Format::Q5K,
            176,
            &[0, 2],
            &[
                (0, 482.25),
                (1, 63.75),
                (31, 156.75),
                (32, 92.0),
                (63, 76.0),
                (100, 168.5),
                (128, 541.5),
                (255, 106.75),
            ],
            70_780.0,
        );
        check(
            Format::Q6K,
            210,
            &[208],
            &[
                (0, -715.5),
                (1, 848.0),
                (31, -48.0),
                (32, 115.5),
                (63, -290.0),
                (100, 1261.5),
                (128, -175.5),
                (255, -30.0),
            ],
            2_306.0,
        );
    }

    #[test]
    fn a_count_that_does_not_fill_its_blocks_has_no_size() {
        assert_eq!(Format::Q4_1.bytes(33), None);
        assert_eq!(Format::Q4_1.bytes(64), Some(40));
        assert_eq!(Format::Q8_0.bytes(u64::MAX - 31), None);
    }
}
