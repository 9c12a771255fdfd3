//! A bundle as one file, for machines without a network.
//!
//! A zstd-compressed tar: `manifest.json` first, then everything it lists and nothing else. A file that is in a bundle
//! under several names is in the archive once.

mod export;
mod import;
mod unfinished;

/// The largest manifest and bundle that are taken from an archive; ours are far below.
const MANIFEST_LIMIT: u64 = 64 << 20;
const BUNDLE_LIMIT: u64 = 8 << 30;
/// Programs shrink to a third or a fourth. What shrinks more than this is not a bundle.
const RATIO_LIMIT: u64 = 40;
/// A tar ends with empty blocks; other programs than ours write up to twenty of them.
const END_LIMIT: u64 = 20 * 512;

#[cfg(test)]
mod tests;
