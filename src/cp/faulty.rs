//! A disk below a page cache, in memory, with faults: what a store must survive.
//!
//! Reads see the cache; a sync moves the sectors written since the last one to the disk; a power cut
//! leaves the disk, and of the sectors not yet synced any. A failed sync is as evil as Linux's: some
//! sectors are never written, the cache goes on showing them or not, and the next sync reports success.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    sync::Arc,
};

use parking_lot::Mutex;
use redb::StorageBackend;

const SECTOR: usize = 512;

/// SplitMix64: enough for choosing faults, and the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// Which operations fail now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Faults {
    #[default]
    None,
    /// Any operation, with this chance in percent, in any way.
    Random(usize),
    /// Every write and growth: no space.
    Full,
    /// Every sync, with all its sectors on disk all the same.
    SyncAfterWriting,
    /// Every sync, with half of its sectors lost.
    SyncLoses,
    /// Everything: the process is dead.
    Dead,
}

#[derive(Clone, Debug)]
pub(super) struct FaultyDisk(Arc<Mutex<Bytes>>);

#[derive(Debug)]
struct Bytes {
    cache: Vec<u8>,
    disk: Vec<u8>,
    /// Numbers of the sectors that a sync has to write.
    dirty: BTreeSet<usize>,
    faults: Faults,
    /// Operations left until it is [`Faults::Dead`].
    dies_in: Option<usize>,
    dice: Dice,
}

impl FaultyDisk {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Bytes {
            cache: Vec::new(),
            disk: Vec::new(),
            dirty: BTreeSet::new(),
            faults: Faults::None,
            dies_in: None,
            dice: Dice(seed),
        })))
    }

    pub(super) fn set(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// The process dies after `operations` more.
    pub(super) fn die_in(&self, operations: usize) {
        self.0.lock().dies_in = Some(operations);
    }

    /// The machine starts again, after a power cut or with its page cache intact; no more faults.
    pub(super) fn restart(&self, power_cut: bool) {
        let mut bytes = self.0.lock();
        bytes.faults = Faults::None;
        bytes.dies_in = None;
        if power_cut {
            bytes.cut();
        }
    }
}

impl Bytes {
    fn cut(&mut self) {
        if self.dice.percent(50) {
            self.disk.resize(self.cache.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if self.dice.percent(50) {
                self.flush(sector);
            }
        }
        self.cache.clone_from(&self.disk);
    }

    /// Copies a sector from the cache to the disk, as far as the disk's file is long.
    fn flush(&mut self, sector: usize) {
        let end = ((sector + 1) * SECTOR).min(self.cache.len()).min(self.disk.len());
        let start = (sector * SECTOR).min(end);
        self.disk[start..end].copy_from_slice(&self.cache[start..end]);
    }

    /// Copies a sector from the disk to the cache: the kernel dropped a page that it took for clean.
    fn evict(&mut self, sector: usize) {
        let end = ((sector + 1) * SECTOR).min(self.cache.len()).min(self.disk.len());
        let start = (sector * SECTOR).min(end);
        self.cache[start..end].copy_from_slice(&self.disk[start..end]);
    }

    fn put(&mut self, offset: usize, data: &[u8]) -> io::Result<()> {
        let place = self.cache.get_mut(offset..offset + data.len());
        place.ok_or_else(|| io::Error::other("beyond the end"))?.copy_from_slice(data);
        self.dirty.extend(offset / SECTOR..(offset + data.len()).div_ceil(SECTOR));
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        if self.dies_in == Some(0) {
            self.faults = Faults::Dead;
        }
        self.dies_in = self.dies_in.map(|left| left.saturating_sub(1));
        if self.faults == Faults::Dead { Err(io::Error::other("dead")) } else { Ok(()) }
    }

    fn fails(&mut self) -> bool {
        matches!(self.faults, Faults::Random(chance) if self.dice.percent(chance))
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        let mut bytes = self.0.lock();
        bytes.step()?;
        Ok(bytes.cache.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut bytes = self.0.lock();
        bytes.step()?;
        // Reading fails too, though rarely: far more is read than written.
        if bytes.fails() && bytes.dice.percent(5) {
            return Err(io::Error::other("unreadable"));
        }
        let from = bytes.cache.get(at(offset)..at(offset) + out.len());
        out.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.0.lock();
        bytes.step()?;
        if len > bytes.cache.len() as u64 && (bytes.faults == Faults::Full || bytes.fails()) {
            return Err(ErrorKind::StorageFull.into());
        }
        let end = at(len).div_ceil(SECTOR);
        bytes.cache.resize(at(len), 0);
        bytes.dirty.retain(|&sector| sector < end);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut bytes = self.0.lock();
        bytes.step()?;
        let fails = bytes.fails();
        let lossy = match bytes.faults {
            Faults::SyncLoses => Some(true),
            Faults::SyncAfterWriting => Some(false),
            _ => fails.then(|| bytes.dice.percent(70)),
        };
        let len = bytes.cache.len();
        bytes.disk.resize(len, 0);
        for sector in std::mem::take(&mut bytes.dirty) {
            if lossy == Some(true) && bytes.dice.percent(50) {
                if bytes.dice.percent(50) {
                    bytes.evict(sector);
                }
            } else {
                bytes.flush(sector);
            }
        }
        if lossy.is_some() { Err(io::Error::other("sync failed")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock();
        bytes.step()?;
        if bytes.faults == Faults::Full {
            return Err(ErrorKind::StorageFull.into());
        }
        if !bytes.fails() {
            return bytes.put(at(offset), data);
        }
        match bytes.dice.below(3) {
            0 => Err(io::Error::other("write failed")),
            1 => Err(ErrorKind::StorageFull.into()),
            _ => {
                let part = bytes.dice.below(data.len() + 1);
                bytes.put(at(offset), &data[..part])?;
                Err(io::Error::new(ErrorKind::WriteZero, "short write"))
            }
        }
    }
}
