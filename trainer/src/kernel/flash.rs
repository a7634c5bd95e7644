//! How is attention of whole sequences computed without a matrix of scores?
//!
//! By the kernels of `attention.cu`, for heads of 64 and of 128 values.

use burn::tensor::DType;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::cube::{empty, like, owner};
use super::cuda::{Argument, Pointer, Strides, Work, pointer};
use super::layer_ops::Turn;

/// Queries of a block in the forward pass; of a tile otherwise, as keys are.
const FORWARD_ROWS: usize = 128;
const TILE: usize = 64;
/// Rows of whose dots a block takes.
const DOTS: usize = 8;

/// Whether there are kernels for heads of that width.
pub(super) fn fits(width: usize) -> bool {
    matches!(width, 64 | 128)
}

/// Sizes and places of one attention.
struct Flash {
    batch: usize,
    tokens: usize,
    query_heads: usize,
    key_heads: usize,
    width: usize,
    scale: f32,
    window: i32,
    of_queries: Strides,
    of_keys: Strides,
    /// Also of the gradient by it.
    of_out: Strides,
}

/// What the forward pass leaves for the backward pass.
pub(super) struct Attended {
    pub out: CubeTensor,
    /// Queries, keys and values as they were multiplied.
    pub rotated: CubeTensor,
    /// The logarithm of each row's sum of exponentials, `[batch, query heads, tokens]`.
    pub normalisers: CubeTensor,
}

impl Flash {
    fn options(&self) -> String {
        format!("-DFLASH_WIDTH={}", self.width)
    }

    fn window(window: usize) -> i32 {
        window.min(i32::MAX as usize) as i32
    }

    /// For `[batch, tokens, heads · width]`, queries, keys and values side by side.
    fn of_tokens([batch, tokens]: [usize; 2], width: usize, turn: &Turn) -> Self {
        let Turn { query_heads, key_heads, .. } = *turn;
        let rows = |heads: usize| Strides {
            batch: (tokens * heads * width) as i64,
            head: width as i32,
            row: (heads * width) as i32,
        };
        let of_all = rows(query_heads + 2 * key_heads);
        Self {
            batch,
            tokens,
            query_heads,
            key_heads,
            width,
            scale: turn.scale as f32,
            window: Self::window(turn.window),
            of_queries: of_all,
            of_keys: of_all,
            of_out: rows(query_heads),
        }
    }

    /// For `[batch, heads, tokens, width]` each.
    fn of_heads(inputs: &[CubeTensor; 3], scale: f64, window: usize) -> Self {
        let shape = inputs[0].meta.shape();
        let (batch, key_heads, width) = (shape[0], shape[1], shape[3]);
        let tokens = inputs[1].meta.shape()[2];
        let query_heads = key_heads * (shape[2] / tokens.max(1));
        let planes = |heads: usize| Strides {
            batch: (heads * tokens * width) as i64,
            head: (tokens * width) as i32,
            row: width as i32,
        };
        Self {
            batch,
            tokens,
            query_heads,
            key_heads,
            width,
            scale: scale as f32,
            window: Self::window(window),
            of_queries: planes(query_heads),
            of_keys: planes(key_heads),
            of_out: planes(query_heads),
        }
    }

    /// Rows that have a normaliser.
    fn rows(&self) -> [usize; 3] {
        [self.batch, self.query_heads, self.tokens]
    }

    fn forward(
        &self,
        work: &mut Work,
        inputs: [Pointer; 3],
        [out, normalisers]: [Pointer; 2],
    ) -> Result<(), String> {
        let [queries, keys, values] = inputs;
        let group = self.query_heads / self.key_heads;
        let arguments: [&dyn Argument; 13] = [
            &queries,
            &keys,
            &values,
            &out,
            &normalisers,
            &self.of_queries,
            &self.of_keys,
            &self.of_out,
            &(self.tokens as i32),
            &(self.query_heads as i32),
            &(group as i32),
            &self.window,
            &self.scale,
        ];
        let grid = [self.batch * self.query_heads, self.tokens.div_ceil(FORWARD_ROWS)];
        let shared = (FORWARD_ROWS + 4 * TILE) * self.width * 2;
        work.launch_shared((&self.options(), "flash_forward"), grid, [256, shared], &arguments)
    }

    /// `of_rows` are the forward pass's result, the gradient by it, normalisers, and room for as many dots. With
    /// `angles`, the gradients by queries and keys are turned back.
    fn backward(
        &self,
        work: &mut Work,
        inputs: [Pointer; 3],
        of_rows: [Pointer; 4],
        by: [Pointer; 3],
        angles: [Pointer; 2],
    ) -> Result<(), String> {
        let [queries, keys, values] = inputs;
        let [out, gradient, normalisers, dots] = of_rows;
        let [by_queries, by_keys, by_values] = by;
        let [cosines, sines] = angles;
        let options = self.options();
        let (tokens, query_heads, key_heads) =
            (self.tokens as i32, self.query_heads as i32, self.key_heads as i32);
        let group = query_heads / key_heads;
        let rows: usize = self.rows().iter().product();
        let arguments: [&dyn Argument; 7] =
            [&out, &gradient, &dots, &self.of_out, &tokens, &query_heads, &(rows as i64)];
        work.launch((&options, "flash_dots"), [rows.div_ceil(DOTS), 1], 32 * DOTS, &arguments)?;

        let shared = 6 * TILE * self.width * 2;
        let tiles = self.tokens.div_ceil(TILE);
        let arguments: [&dyn Argument; 18] = [
            &queries,
            &keys,
            &values,
            &gradient,
            &normalisers,
            &dots,
            &by_keys,
            &by_values,
            &cosines,
            &sines,
            &self.of_queries,
            &self.of_keys,
            &self.of_out,
            &tokens,
            &key_heads,
            &group,
            &self.window,
            &self.scale,
        ];
        let numbers = 4 * TILE * 4;
        let grid = [self.batch * self.key_heads, tiles];
        work.launch_shared((&options, "flash_by_keys"), grid, [128, shared + numbers], &arguments)?;
        let arguments: [&dyn Argument; 17] = [
            &queries,
            &keys,
            &values,
            &gradient,
            &normalisers,
            &dots,
            &by_queries,
            &cosines,
            &sines,
            &self.of_queries,
            &self.of_keys,
            &self.of_out,
            &tokens,
            &query_heads,
            &group,
            &self.window,
            &self.scale,
        ];
        let grid = [self.batch * self.query_heads, tiles];
        work.launch_shared((&options, "flash_by_queries"), grid, [128, shared], &arguments)
    }
}

/// Rotation and attention from `[batch, tokens, heads · width]`, queries, keys and values side by side.
pub(super) fn attend(
    all: CubeTensor,
    cosines: CubeTensor,
    sines: CubeTensor,
    turn: &Turn,
) -> Result<Attended, String> {
    let [all, cosines, sines] = [all, cosines, sines].map(into_contiguous);
    let (batch, tokens, wide) = (all.meta.shape()[0], all.meta.shape()[1], all.meta.shape()[2]);
    let heads = turn.query_heads + 2 * turn.key_heads;
    let width = wide / heads;
    let flash = Flash::of_tokens([batch, tokens], width, turn);
    let rotated = like(&all);
    let out = empty(&all, [batch, tokens, turn.query_heads * width], all.dtype);
    let normalisers = empty(&all, flash.rows(), DType::F32);
    let (from, to) = (pointer(&all)?, pointer(&rotated)?);
    let (cosines_at, sines_at) = (pointer(&cosines)?, pointer(&sines)?);
    let results = [pointer(&out)?, pointer(&normalisers)?];
    let turning = turn.query_heads + turn.key_heads;
    owner(&all)?.queue(|work| {
        let arguments: [&dyn Argument; 8] = [
            &from,
            &to,
            &cosines_at,
            &sines_at,
            &(tokens as i32),
            &(turning as i32),
            &(heads as i32),
            &(width as i32),
        ];
        work.launch(("", "rotate_heads"), [batch * tokens, 1], 256, &arguments)?;
        flash.forward(work, sides(to, turn, width), results)
    })?;
    Ok(Attended { out, rotated, normalisers })
}

/// Where queries, keys and values of the first token begin.
fn sides(all: Pointer, turn: &Turn, width: usize) -> [Pointer; 3] {
    let keys = turn.query_heads * width;
    [all, all.skip(keys), all.skip(keys + turn.key_heads * width)]
}

/// The gradient by what [`attend`] was given.
pub(super) fn attend_backward(
    attended: Attended,
    cosines: CubeTensor,
    sines: CubeTensor,
    gradient: CubeTensor,
    turn: &Turn,
) -> Result<CubeTensor, String> {
    let Attended { out, rotated, normalisers } = attended;
    let [cosines, sines, gradient] = [cosines, sines, gradient].map(into_contiguous);
    let [out, rotated, normalisers] = [out, rotated, normalisers].map(into_contiguous);
    let shape = rotated.meta.shape().clone();
    let width = shape[2] / (turn.query_heads + 2 * turn.key_heads);
    let flash = Flash::of_tokens([shape[0], shape[1]], width, turn);
    let by_all = like(&rotated);
    let dots = like(&normalisers);
    let (inputs, by) = (pointer(&rotated)?, pointer(&by_all)?);
    let of_rows = [pointer(&out)?, pointer(&gradient)?, pointer(&normalisers)?, pointer(&dots)?];
    let angles = [pointer(&cosines)?, pointer(&sines)?];
    owner(&rotated)?.queue(|work| {
        flash.backward(work, sides(inputs, turn, width), of_rows, sides(by, turn, width), angles)
    })?;
    Ok(by_all)
}

/// Attention of `[batch, key heads, group · tokens, width]` queries to `[batch, key heads, tokens, width]` keys and
/// values; with a gradient above it, also the gradients by the three.
pub(super) fn attention(
    inputs: [CubeTensor; 3],
    gradient: Option<CubeTensor>,
    scale: f64,
    window: usize,
) -> Result<(CubeTensor, Option<[CubeTensor; 3]>), String> {
    let inputs = inputs.map(into_contiguous);
    let flash = Flash::of_heads(&inputs, scale, window);
    let out = like(&inputs[0]);
    let normalisers = empty(&out, flash.rows(), DType::F32);
    let rest = gradient.map(|gradient| {
        let by = [0, 1, 2].map(|input: usize| like(&inputs[input]));
        (into_contiguous(gradient), like(&normalisers), by)
    });
    let [queries, keys, values] = &inputs;
    let sides = [pointer(queries)?, pointer(keys)?, pointer(values)?];
    let results = [pointer(&out)?, pointer(&normalisers)?];
    let places = match &rest {
        Some((gradient, dots, [by_queries, by_keys, by_values])) => Some((
            [results[0], pointer(gradient)?, results[1], pointer(dots)?],
            [pointer(by_queries)?, pointer(by_keys)?, pointer(by_values)?],
        )),
        None => None,
    };
    owner(&out)?.queue(|work| {
        flash.forward(work, sides, results)?;
        match places {
            Some((of_rows, by)) => flash.backward(work, sides, of_rows, by, [Pointer(0); 2]),
            None => Ok(()),
        }
    })?;
    Ok((out, rest.map(|(_, _, by)| by)))
}
