//! What does a set of weights look like on the host?

use std::collections::BTreeMap;

use super::WeightsError;

/// One tensor: row-major f32 data.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Length of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// The elements; as many as the product of `shape`.
    pub data: Vec<f32>,
}

impl HostTensor {
    /// A tensor of `shape` with `data` in row-major order.
    ///
    /// # Panics
    /// If the lengths disagree, which is a fault of the caller.
    pub fn new(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.iter().product::<usize>(), data.len(), "a tensor's data fills its shape");
        Self { shape, data }
    }

    /// The transpose of a matrix.
    ///
    /// # Panics
    /// If the tensor has not two dimensions.
    pub fn transposed(&self) -> Self {
        let [rows, columns] = self.shape[..] else { panic!("only a matrix can be transposed") };
        let mut data = vec![0.0; self.data.len()];
        // In tiles, since a column-wise walk over a big matrix misses the cache at every step.
        const TILE: usize = 32;
        for row_tile in (0..rows).step_by(TILE) {
            for column_tile in (0..columns).step_by(TILE) {
                for row in row_tile..rows.min(row_tile + TILE) {
                    for column in column_tile..columns.min(column_tile + TILE) {
                        data[column * rows + row] = self.data[row * columns + column];
                    }
                }
            }
        }
        Self { shape: vec![columns, rows], data }
    }
}

/// The number format in which a file stores weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredType {
    F32,
    BF16,
}

/// A tensor as it lies in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// As the file spells it.
    pub name: String,
    /// Length of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// The number format, as its file format spells it: `BF16`, `Q4_K`.
    pub format: String,
    /// Bytes of its data.
    pub bytes: u64,
}

/// Weights by their Hugging Face names, in Hugging Face layout (`[out, in]`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedTensors {
    origin: String,
    tensors: BTreeMap<String, HostTensor>,
}

impl NamedTensors {
    /// An empty set. `origin` says in error messages where the weights come from.
    pub fn new(origin: impl Into<String>) -> Self {
        Self { origin: origin.into(), tensors: BTreeMap::new() }
    }

    /// Where the weights come from, for people.
    pub fn origin(&self) -> &str {
        if self.origin.is_empty() { "the given weights" } else { &self.origin }
    }

    /// Adds or replaces a tensor.
    pub fn insert(&mut self, name: impl Into<String>, tensor: HostTensor) {
        self.tensors.insert(name.into(), tensor);
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.tensors.get(name)
    }

    /// The tensor of that name, which must have that shape.
    pub fn expect(&self, name: &str, shape: &[usize]) -> Result<&HostTensor, WeightsError> {
        let tensor = self
            .get(name)
            .ok_or_else(|| WeightsError::MissingTensor { name: name.into(), origin: self.origin().into() })?;
        if tensor.shape != shape {
            return Err(WeightsError::WrongShape {
                name: name.into(),
                origin: self.origin().into(),
                expected: shape.to_vec(),
                found: tensor.shape.clone(),
            });
        }
        Ok(tensor)
    }

    /// All tensors, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HostTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Takes over all tensors of `other`.
    pub fn extend(&mut self, other: Self) {
        self.tensors.extend(other.tensors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn transpose_keeps_every_element_across_tile_borders() {
        let tensor = HostTensor::new([70, 33], (0..70 * 33).map(|i| i as f32).collect());
        let back = tensor.transposed();
        assert_eq!(back.shape, [33, 70]);
        assert_eq!(back.data[5 * 70 + 64], (64 * 33 + 5) as f32);
        assert_eq!(back.transposed(), tensor);
    }

    #[test]
    fn absent_and_misshapen_tensors_are_named() {
        let mut tensors = NamedTensors::new("`model.gguf`");
        tensors.insert("a", HostTensor::new([2, 3], vec![0.0; 6]));
        let check = |name: &str, shape: &[usize], expected: expect_test::Expect| {
            expected.assert_eq(&tensors.expect(name, shape).unwrap_err().to_string());
        };
        check(
            "b",
            &[1],
            expect![[r#"
            weights: tensor `b` is missing from `model.gguf`
            help: the file and the configuration describe different models, or a shard is missing"#]],
        );
        check(
            "a",
            &[3, 2],
            expect![[r#"
            weights: tensor `a` of `model.gguf` has shape [2, 3]; the configuration asks for [3, 2]
            help: take the configuration that belongs to these weights"#]],
        );
    }
}
