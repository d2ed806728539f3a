//! The embedded store: bytes by (table, key) in one redb file, one durable transaction at a time.
//!
//! Read once at start ([`Store::load`]), then written by the [`writer`](super::writer) alone; the
//! state that is served lives in memory elsewhere. Knows nothing of what the bytes mean.
//!
//! After any fault of a read, write or sync, redb refuses everything until the database is opened
//! again. The next [`Store::write`] or [`Store::recover`] does that, in three steps that can be repeated:
//! 1. [`disk::rewrite`], since after a failed sync the page cache may show what the disk lacks;
//! 2. open, where redb checks all checksums and falls back by one transaction if it must;
//! 3. the failed transaction may be there or not (whole in any case): its caller was told that it
//!    failed, so every key that it touched gets its former value back.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::{
    disk::{self, FolderLock},
    fault::StoreError,
    record::{Record, Table},
};

/// Bytes that redb may keep of the file. Small: everything is read once and then only written.
const CACHE_BYTES: usize = 2 << 20;
/// Raised with any change of tables that an older node would misread.
const FORMAT: u64 = 1;
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const PROBE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("probe");

/// Former values of the keys that a transaction touches; `None` where there was none.
type Former = BTreeMap<(Table, Box<[u8]>), Option<Box<[u8]>>>;

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// At start: the file is rewritten only if it wasn't closed in order.
    Start,
    /// After a fault: always rewritten, never made anew.
    AfterFault,
}

/// The open store. One owner writes; see the module for what happens after a fault.
pub struct Store {
    open: Box<dyn Fn(Opening) -> Result<Database, StoreError> + Send>,
    /// `None` from a fault until [`Store::recover`] succeeds.
    database: Option<Database>,
    /// What a failed transaction may have changed and recovery must put back.
    former: Former,
    /// Released last.
    _lock: Option<FolderLock>,
}

impl Store {
    /// Opens or makes `nacre.redb` in `folder` (made too if absent), and locks the folder.
    ///
    /// After a crash the whole file is checked, about a second for a gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Locked`] at once if another process has it; [`StoreError::Open`] if it can't be
    /// made or opened; [`StoreError::Damaged`] if it isn't a store that this version can read.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let (file, lock) = disk::open(folder, |new| {
            // Dropped, it is closed; should that fail, the next open finds it so and checks it.
            Store::open_with(new).map(drop)
        })?;
        let mut store = Self::open_with(file)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// As [`Store::open`], on any storage; a clone of `backend` must be a handle of the same bytes.
    /// An empty one becomes a new store.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(backend: impl redb::StorageBackend + Clone) -> Result<Self, StoreError> {
        let open = Box::new(move |opening| open_database(&backend, opening));
        let database = caught(|| open(Opening::Start))?;
        Ok(Self { open, database: Some(database), former: Former::new(), _lock: None })
    }

    /// Calls `each` with every key and value of `table`, in the order of the keys' bytes.
    ///
    /// # Errors
    /// Any fault of reading; `each` may have been called for a part of them.
    pub fn load(&mut self, table: Table, each: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.recover()?;
        // redb panics on some damaged pages.
        let outcome =
            caught(|| self.database.as_ref().map_or(Ok(()), |database| read_all(database, table, each)));
        if outcome.is_err() {
            self.drop_database();
        }
        outcome
    }

    /// Writes `records` in their order as one transaction, which is on disk when this returns.
    ///
    /// Opens the database again first if an earlier call failed.
    ///
    /// # Errors
    /// Nothing of `records` stays, unless the process ends before the store could recover: then the
    /// transaction may be found at the next start, whole.
    pub fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.recover()?;
        self.guarded(|database, former| write_all(database, records, former))
    }

    /// Opens the database again after a fault, with the data as the callers know it.
    /// Costs nothing when there was none.
    ///
    /// # Errors
    /// The fault goes on. May be called again at any time.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        if self.database.is_some() {
            return Ok(());
        }
        let former = std::mem::take(&mut self.former);
        let outcome = caught(|| {
            let database = (self.open)(Opening::AfterFault)?;
            put_back(&database, &former)?;
            Ok(database)
        });
        match outcome {
            Ok(database) => {
                self.database = Some(database);
                Ok(())
            }
            Err(error) => {
                self.former = former;
                Err(error)
            }
        }
    }

    /// Whether `bytes` can be written now: does it, and removes them again.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn probe(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.recover()?;
        self.guarded(|database, _| {
            let transaction = database.begin_write()?;
            transaction.open_table(PROBE)?.insert(0, vec![1; bytes].as_slice())?;
            transaction.commit()?;
            let transaction = database.begin_write()?;
            transaction.delete_table(PROBE)?;
            Ok(transaction.commit()?)
        })
    }

    /// Runs `write` on the open database; after an error or a panic the database is dropped and
    /// what `write` noted as former values is kept for the recovery.
    fn guarded(
        &mut self,
        write: impl FnOnce(&Database, &mut Former) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        let former = &mut self.former;
        let outcome = caught(|| write(database, former));
        if outcome.is_ok() {
            self.former.clear();
        } else {
            self.drop_database();
        }
        outcome
    }

    fn drop_database(&mut self) {
        let database = self.database.take();
        // redb's own drop writes nothing after a fault, but a panic may have left it in any state.
        if let Err(error) = caught(|| {
            drop(database);
            Ok(())
        }) {
            tracing::error!(%error, "the store panicked while it was closed after a fault");
        }
    }
}

/// Closes the file in order, so that the next start needs no check of it.
impl Drop for Store {
    fn drop(&mut self) {
        let Some(database) = self.database.take() else { return };
        if let Err(error) = caught(|| Ok(database.close()?)) {
            tracing::warn!(
                reason = error.reason(),
                "the store wasn't closed in order; the next start checks it"
            );
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("open", &self.database.is_some()).finish_non_exhaustive()
    }
}

fn caught<T>(run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(StoreError::Panicked { message: text.unwrap_or_else(|| "no text".to_owned()) })
    })
}

fn open_database(
    backend: &(impl redb::StorageBackend + Clone),
    opening: Opening,
) -> Result<Database, StoreError> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    if opening == Opening::Start {
        // redb tells of a file that wasn't closed in order through this callback, before it
        // believes anything of it.
        builder.set_repair_callback(redb::RepairSession::abort);
        match builder.create_with_backend(backend.clone()) {
            Err(DatabaseError::RepairAborted) => {
                tracing::info!("the store wasn't closed in order: checking it");
            }
            database => return checked_format(database?),
        }
    } else if backend.len().map_err(StoreError::from_io)? == 0 {
        return Err(StoreError::Damaged { reason: "the data file was emptied under us".to_owned() });
    }
    disk::rewrite(backend).map_err(StoreError::from_io)?;
    builder.set_repair_callback(|_| {});
    checked_format(builder.create_with_backend(backend.clone())?)
}

/// Marks a new database with [`FORMAT`] and makes its tables; refuses one with another mark or none.
fn checked_format(database: Database) -> Result<Database, StoreError> {
    let reader = database.begin_read()?;
    let damaged = |reason: String| Err(StoreError::Damaged { reason });
    match reader.open_table(META) {
        Ok(meta) => match meta.get("format")?.map(|format| format.value()) {
            Some(FORMAT) => return Ok(database),
            found => return damaged(format!("its format is {found:?}, this version reads {FORMAT}")),
        },
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if reader.list_tables()?.next().is_some() {
        return damaged("it is a redb file of another program".to_owned());
    }
    drop(reader);
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    for table in Table::ALL {
        transaction.open_table(table.definition())?;
    }
    transaction.commit()?;
    Ok(database)
}

fn read_all(database: &Database, table: Table, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
    let table = database.begin_read()?.open_table(table.definition())?;
    for entry in table.iter()? {
        let (key, value) = entry?;
        each(key.value(), value.value());
    }
    Ok(())
}

fn write_all(database: &Database, records: &[Record], former: &mut Former) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    {
        let mut tables = [const { None }; Table::ALL.len()];
        for record in records {
            let (Record::Put { table, key, .. } | Record::Delete { table, key }) = record;
            let open = &mut tables[*table as usize];
            if open.is_none() {
                *open = Some(transaction.open_table(table.definition())?);
            }
            let open = open.as_mut().expect("opened above");
            let old = match record {
                Record::Put { value, .. } => open.insert(key.as_ref(), value.as_ref())?,
                Record::Delete { .. } => open.remove(key.as_ref())?,
            };
            // Only the first value that a key had is the one from before the transaction.
            former.entry((*table, key.clone())).or_insert_with(|| old.map(|old| old.value().into()));
        }
    }
    Ok(transaction.commit()?)
}

/// Gives every key in `former` its value of before; writes nothing if all have it.
fn put_back(database: &Database, former: &Former) -> Result<(), StoreError> {
    let reader = database.begin_read()?;
    let mut records = Vec::new();
    for ((table, key), value) in former {
        let now = reader.open_table(table.definition())?.get(key.as_ref())?;
        if now.as_ref().map(redb::AccessGuard::value) != value.as_deref() {
            records.push(match value {
                Some(value) => Record::put(*table, key.clone(), value.clone()),
                None => Record::delete(*table, key.clone()),
            });
        }
    }
    drop(reader);
    if records.is_empty() {
        return Ok(());
    }
    tracing::info!(
        keys = records.len(),
        "a transaction that was answered as failed reached the disk: undone"
    );
    write_all(database, &records, &mut Former::new())
}
