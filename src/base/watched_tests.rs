use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const PATIENCE: Patience = Patience {
    idle: Duration::from_secs(60),
    head: Duration::from_secs(20),
    write: Duration::from_secs(30),
    least_rate: 64 << 10,
};

async fn lasts(conduct: &Conduct) -> (u64, Lost) {
    let start = Instant::now();
    let lost = conduct.lost_patience(PATIENCE).await;
    (start.elapsed().as_secs(), lost)
}

/// Whether it lasts for an hour.
async fn lasts_on(conduct: &Conduct) -> bool {
    tokio::time::timeout(Duration::from_secs(3_600), lasts(conduct)).await.is_err()
}

/// A connection on which these bytes have come.
async fn after(bytes: &[u8]) -> (Watched<tokio::io::DuplexStream>, Arc<Conduct>, tokio::io::DuplexStream) {
    let (mut client, server) = tokio::io::duplex(64);
    let (mut stream, conduct) = watch(server);
    for byte in bytes {
        client.write_all(&[*byte]).await.unwrap();
        stream.read_u8().await.unwrap();
    }
    (stream, conduct, client)
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_client_has_its_time() {
    let (_stream, conduct, _client) = after(b"").await;
    assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
    let (_stream, conduct, _client) = after(b"POST / H").await;
    assert_eq!(lasts(&conduct).await, (20, Lost::Slow));
    // Frames between requests are no head.
    let (_stream, conduct, _client) = after(b"PRI * HTTP/2.0").await;
    assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
    let (_stream, conduct, _client) = after(b"GET / HTTP/1.1\r\n\r\n").await;
    let request = conduct.request();
    assert!(lasts_on(&conduct).await, "a request under way has its own times");
    drop(request);
    assert_eq!(lasts(&conduct).await, (60, Lost::Idle));
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_client_gives_no_room_ends_its_connection() {
    let (_stream, conduct, _client) = after(b"PRI * HTTP/2.0").await;
    let (request, other) = (conduct.request(), conduct.request());
    let (stalls, goes_on) = (request.body(), other.body());
    stalls.given(1_000);
    goes_on.given(1_000);
    tokio::time::sleep(Duration::from_secs(10)).await;
    goes_on.asked();
    assert_eq!(lasts(&conduct).await, (20, Lost::Slow));
    drop(stalls);
    assert!(lasts_on(&conduct).await);
}

/// Seconds until the connection of a stream ends whose client takes a piece of so many bytes each ten seconds.
async fn stream_lasts(bytes: usize, is_up_to_date: bool) -> u64 {
    let (_stream, conduct, _client) = after(b"PRI * HTTP/2.0").await;
    let request = conduct.request();
    let body = request.body();
    let taking = async {
        loop {
            body.given(bytes);
            tokio::time::sleep(Duration::from_secs(10)).await;
            body.asked();
            if is_up_to_date {
                body.waits();
            }
        }
    };
    tokio::select! {
        (lasted, _) = lasts(&conduct) => lasted,
        () = tokio::time::sleep(Duration::from_secs(3_600)) => 3_600,
        () = taking => unreachable!("it takes on"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_trickles_ends_its_connection_and_one_that_has_no_more_to_take_does_not() {
    assert!((29..=31).contains(&stream_lasts(100, false).await));
    assert_eq!(stream_lasts(100, true).await, 3_600);
    assert_eq!(stream_lasts(640 << 10, false).await, 3_600);
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_byte_is_cut_off() {
    let (mut stream, conduct, mut client) = after(b"G").await;
    let _request = conduct.request();
    let writing = tokio::spawn(async move { stream.write_all(&[0; 1 << 20]).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.read_exact(&mut vec![0; 128 << 10]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (lasted, lost) = lasts(&conduct).await;
    assert!(lost == Lost::Slow && (28..=30).contains(&lasted), "{lasted}");
    writing.abort();
}

/// Seconds until a client is given up of which each write waits `secs` and then takes `bytes`.
async fn lasts_taking(bytes: usize, secs: u64) -> u64 {
    let conduct = Conduct::new();
    let _request = conduct.request();
    let notes = Notes(Arc::clone(&conduct));
    let written = |outcome| Tap::<()>::has_written(&notes, &outcome);
    let reading = async {
        loop {
            written(Poll::Pending);
            tokio::time::sleep(Duration::from_secs(secs)).await;
            written(Poll::Ready(Ok(bytes)));
        }
    };
    tokio::select! {
        (lasted, _) = lasts(&conduct) => lasted,
        () = tokio::time::sleep(Duration::from_secs(3_600)) => 3_600,
        () = reading => unreachable!("it reads on"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_byte_now_and_then_is_given_up_too() {
    let lasted = lasts_taking(1, 29).await;
    assert!((29..=31).contains(&lasted), "{lasted}");
    // At half the least rate after twice the patience, at the least rate never.
    let lasted = lasts_taking(32 << 10, 1).await;
    assert!((57..=61).contains(&lasted), "{lasted}");
    assert_eq!(lasts_taking(64 << 10, 1).await, 3_600);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_blocks_is_noticed_while_the_idle_time_runs() {
    let conduct = Conduct::new();
    let blocks_after_a_while = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let _request = conduct.request();
        Tap::<()>::has_written(&Notes(Arc::clone(&conduct)), &Poll::Pending);
        std::future::pending::<()>().await;
    };
    let lasted = tokio::select! {
        lasted = lasts(&conduct) => lasted,
        () = blocks_after_a_while => unreachable!("it never ends"),
    };
    assert_eq!(lasted, (33, Lost::Slow));
}
