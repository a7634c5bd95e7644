//! What does a step keep in memory? Counted by the allocator: one test at a time has this program to itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tandem_trainer::Device;
use tandem_trainer::learner::{Learner, LearnerConfig, Recompute, Sample};
use tandem_trainer::model::{CausalLm, LoraConfig, LoraTargets, ModelConfig};

/// Bytes in use, the most at once, and the largest piece that was asked for.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is done by the system's allocator, with the layouts that it is given.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), SeqCst) + layout.size();
        MOST.fetch_max(now, SeqCst);
        LARGEST.fetch_max(layout.size(), SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn samples(count: usize, length: usize) -> Vec<Sample> {
    let sample = |seed: usize| {
        let ids = (0..length).map(|at| ((at * 7 + seed * 5) % 50) as u32).collect();
        Sample::demonstration(ids, (0..length).map(|at| at > 0).collect())
    };
    (0..count).map(sample).collect()
}

/// Bytes that a step needs at once beside what was there before it, and the largest piece.
fn step(model: CausalLm, config: LearnerConfig, samples: &[Sample]) -> (usize, usize) {
    let mut learner = Learner::new(model, config).unwrap();
    // The first step makes the optimiser's state.
    learner.supervised_step(samples).unwrap();
    let before = NOW.load(SeqCst);
    MOST.store(before, SeqCst);
    LARGEST.store(0, SeqCst);
    let report = learner.supervised_step(samples).unwrap();
    assert_eq!(report.skipped, None);
    (MOST.load(SeqCst) - before, LARGEST.load(SeqCst))
}

/// Both in one test: they share the counters.
#[test]
fn layers_computed_again_and_adapters_need_the_memory_that_they_should() {
    // Deep and narrow: what is kept of layers is nearly everything.
    let deep = ModelConfig::llama(32, 64, 24, [4, 2], 50);
    let lora = LoraConfig { rank: 2, alpha: 4.0, ..LoraConfig::default() };
    let base = CausalLm::random(deep, 1, &Device::flex());
    for model in [base.clone().with_lora(lora, 1), base] {
        let need = |recompute| {
            let config = LearnerConfig { recompute, ..LearnerConfig::default() };
            step(model.clone(), config, &samples(4, 65)).0
        };
        let (kept, again) = (need(Recompute::None), need(Recompute::Layer));
        eprintln!("24 layers: {kept} bytes with all kept, {again} with layers computed again");
        assert!(again * 4 < kept, "{again} bytes of {kept}");
    }

    // Wide, with few tokens: a tensor of the shape of a weight would be the largest by far.
    let wide = ModelConfig::llama(512, 2048, 2, [8, 4], 50);
    let targets = LoraTargets::all();
    let base = CausalLm::random(wide, 1, &Device::flex());
    let smallest_dense = 512 * 256 * 4;
    for recompute in [Recompute::None, Recompute::Layer] {
        let config = LearnerConfig { recompute, ..LearnerConfig::default() };
        let adapted = base.clone().with_lora(LoraConfig { targets, ..lora }, 1);
        let largest = step(adapted, config, &samples(1, 9)).1;
        eprintln!("adapters: the largest piece has {largest} bytes, the smallest weight {smallest_dense}");
        assert!(largest < smallest_dense, "{largest}");
    }
}
