//! Many episodes at once: groups, retries, seeds.
