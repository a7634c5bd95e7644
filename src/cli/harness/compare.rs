//! `diff` and `lint`: what does admission find in these harnesses?

use anyhow::Result;
use tandem_host::harness::{HarnessDiff, Side};

use super::place::{Bench, Place, is_refusal};
use crate::cli::Exit;

pub async fn diff(from: &str, to: &str, place: &Place, json: bool) -> Result<Exit> {
    let (from, to) = (place.find(from)?.manifest, place.find(to)?.manifest);
    let bench = Bench::new()?;
    // A harness of another time may not be admitted any more; the rest can still be compared.
    let old = bench.facts(place, &from).await.map_err(|error| error.to_string());
    let new = bench.facts(place, &to).await.map_err(|error| error.to_string());
    let diff = HarnessDiff::of(
        Side { manifest: &from, facts: old.as_deref().map_err(String::as_str) },
        Side { manifest: &to, facts: new.as_deref().map_err(String::as_str) },
    );
    if json {
        println!("{}", serde_json::to_string_pretty(&diff)?);
    } else {
        print!("{diff}");
    }
    Ok(Exit::Done)
}

pub async fn lint(word: &str, place: &Place, json: bool) -> Result<Exit> {
    let manifest = place.find(word)?.manifest;
    let facts = match Bench::new()?.facts(place, &manifest).await {
        Ok(facts) => facts,
        Err(error) if is_refusal(&error) => {
            eprintln!("error: {error}");
            return Ok(Exit::No);
        }
        Err(error) => return Err(error.into()),
    };
    let warnings = tandem_host::harness::lint(&manifest, &facts);
    if json {
        println!("{}", serde_json::to_string_pretty(&warnings)?);
    } else {
        for warning in &warnings {
            println!("warning: {warning}");
        }
        match warnings.len() {
            0 => println!("{}: no warnings", manifest.digest().short()),
            count => println!("{}: {count} warnings", manifest.digest().short()),
        }
    }
    Ok(if warnings.is_empty() { Exit::Done } else { Exit::No })
}
