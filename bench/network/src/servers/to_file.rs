//! Lines of many connections to a file in idiomatic tokio, with one task per connection.

use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};

use crate::Result;

/// Maximum number of bytes per read.
const READ: usize = 16 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct ToFile {
    port: u16,
    output: PathBuf,
    /// Use one thread instead of one per processor
    #[arg(long)]
    one_thread: bool,
}

impl ToFile {
    pub(crate) fn run(&self) -> Result {
        // The task that reads also writes to the file, under a lock, which is the fastest way for few lines at a time.
        let file = Arc::new(Mutex::new(File::create(&self.output)?));
        self.runtime()?.block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", self.port)).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(serve(stream, file.clone()));
            }
        })
    }

    fn runtime(&self) -> Result<Runtime> {
        let mut builder = if self.one_thread {
            Builder::new_current_thread()
        } else {
            Builder::new_multi_thread()
        };
        Ok(builder.enable_io().build()?)
    }
}

async fn serve(mut stream: TcpStream, file: Arc<Mutex<File>>) {
    if let Err(error) = copy_lines(&mut stream, &file).await {
        eprintln!("a connection: {error}");
    }
}

/// Writes complete lines, and keeps incomplete ones until their end arrives.
async fn copy_lines(stream: &mut TcpStream, file: &Mutex<File>) -> std::io::Result<()> {
    let mut lines = Vec::with_capacity(READ);
    loop {
        if stream.read_buf(&mut lines).await? == 0 {
            return Ok(());
        }
        if let Some(last) = lines.iter().rposition(|&byte| byte == b'\n') {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&lines[..=last])?;
            drop(file);
            lines.drain(..=last);
        }
        lines.reserve(READ);
    }
}
