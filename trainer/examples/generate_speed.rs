//! How fast does the generator read prompts and write replies?
//!
//! `cargo run -p tandem-trainer --example generate_speed -- MODEL.gguf [SEQUENCES] [PROMPT] [REPLY]`

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use burn::tensor::Device;
use tandem_trainer::generate::{Generator, GeneratorConfig, SampleRequest, Sequence};
use tandem_trainer::model::{CausalLm, ModelConfig};
use tandem_trainer::weights::Gguf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else { return Err("give the path of a GGUF file".into()) };
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (sequences, prompt, reply) = (number(1, 12)?, number(2, 400)?, number(3, 64)?);

    let device = device();
    let file = Gguf::open(Path::new(path))?;
    let config = ModelConfig::from_gguf(file.metadata(), true)?;
    let vocabulary = config.vocab_size as u32;
    let model = CausalLm::from_tensors(config, &file.tensors()?, &device)?;
    let generator = Generator::spawn(model, 0, GeneratorConfig { slots: sequences, context: 2048 });

    // `reply` tokens after prompts of `length` tokens, of which the first `shared` are common.
    let run = |open: &[Sequence],
               length: usize,
               shared: usize,
               reply: usize,
               round: u32|
     -> Result<(f64, f64), Box<dyn std::error::Error>> {
        let (start, used) = (Instant::now(), cpu_seconds());
        let (sender, receiver) = mpsc::channel();
        for (index, sequence) in (0u32..).zip(open) {
            let own = |at: usize| if at < shared { round } else { round + 1 + index };
            let append = (0..length).map(|at| (at as u32 * 7919 + own(at) * 104_729) % vocabulary).collect();
            let request =
                SampleRequest { append, max_tokens: reply, seed: index.into(), ..SampleRequest::default() };
            let sender = sender.clone();
            sequence.sample(
                request,
                Box::new(move |result| {
                    let _ = sender.send(result);
                }),
            );
        }
        drop(sender);
        for result in receiver {
            result?;
        }
        Ok((start.elapsed().as_secs_f64(), cpu_seconds() - used))
    };

    let open = || (0..sequences).map(|_| generator.open()).collect::<Result<Vec<_>, _>>();
    run(&open()?, 8, 0, 2, 1)?; // warm up
    let open = open()?;
    let (seconds, cpu) = run(&open, prompt, prompt - 20, 1, 100)?;
    println!("{sequences} prompts of {prompt} tokens, all but 20 shared: {seconds:.2} s ({cpu:.2} s of CPU)");
    let (seconds, cpu) = run(&open, 100, 0, 1, 200)?;
    println!(
        "{sequences} suffixes of 100 tokens: {:.0} tokens/s ({:.0} a CPU second)",
        (sequences * 100) as f64 / seconds,
        (sequences * 100) as f64 / cpu
    );
    let (seconds, cpu) = run(&open, 1, 0, reply, 300)?;
    let total = (sequences * reply) as f64;
    println!(
        "{sequences} replies of {reply} tokens: {:.1} tokens/s ({:.1} a CPU second), {:.0} ms a step",
        total / seconds,
        total / cpu,
        1000.0 * seconds / reply as f64
    );
    Ok(())
}

/// What this process used of all processors, which says more than the clock on a busy machine. 0 where unknown.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    // User and system time, in hundredths of a second.
    (ticks(11) + ticks(12)) / 100.0
}

fn device() -> Device {
    #[cfg(feature = "cuda")]
    if std::env::var_os("TANDEM_DEVICE").is_some_and(|name| name == "cuda:0") {
        return Device::cuda(0);
    }
    Device::flex()
}
