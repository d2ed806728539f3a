//! A connection that speaks another protocol from here on, such as a WebSocket: bytes pass both ways.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf},
    time::Instant,
};

/// Bytes that are held for each way.
const BUFFER: usize = 8 << 10;

/// Passes bytes until both sides have ended, one has failed, or nothing has moved for `idle`. `read` has been read of `instance`.
///
/// A side that has said all is told so by the end of what the other one says; that may go on.
///
/// # Errors
/// What broke, or that nothing moved.
pub async fn run<A, B>(client: A, instance: B, read: &[u8], idle: Duration) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (from_client, mut to_client) = tokio::io::split(client);
    let (from_instance, to_instance) = tokio::io::split(instance);
    let moved = Moved { start: Instant::now(), ms: AtomicU64::new(0) };
    let passing = async {
        to_client.write_all(read).await?;
        let up = copy(from_client, to_instance, &moved);
        let down = copy(from_instance, to_client, &moved);
        tokio::try_join!(up, down).map(drop)
    };
    tokio::select! {
        outcome = passing => outcome,
        () = moved.not_for(idle) => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing moved")),
    }
}

/// When something moved last.
struct Moved {
    start: Instant,
    ms: AtomicU64,
}

impl Moved {
    fn now(&self) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.ms.store(ms, Relaxed);
    }

    /// Ready when nothing has moved for so long.
    async fn not_for(&self, idle: Duration) {
        loop {
            let deadline = self.start + Duration::from_millis(self.ms.load(Relaxed)) + idle;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

async fn copy<A, B>(mut from: ReadHalf<A>, mut to: WriteHalf<B>, moved: &Moved) -> io::Result<()>
where
    A: AsyncRead,
    B: AsyncWrite,
{
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        moved.now();
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
        moved.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_pass_both_ways_until_both_have_ended() {
        let ((mut client, ours), (mut instance, theirs)) = (tokio::io::duplex(16), tokio::io::duplex(16));
        let running =
            tokio::spawn(async move { run(ours, theirs, b"first ", Duration::from_secs(60)).await });
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut said = String::new();
        instance.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "hello");
        instance.write_all(b"and more").await.unwrap();
        drop(instance);
        said.clear();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "first and more");
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_in_which_nothing_moves_ends() {
        let ((mut client, ours), (mut instance, theirs)) = (tokio::io::duplex(16), tokio::io::duplex(16));
        let start = Instant::now();
        let running = tokio::spawn(async move { run(ours, theirs, b"", Duration::from_secs(60)).await });
        tokio::time::sleep(Duration::from_secs(50)).await;
        client.write_all(b"x").await.unwrap();
        instance.read_u8().await.unwrap();
        assert_eq!(running.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 110);
    }
}
