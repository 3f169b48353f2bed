//! The reference for flows: one thread without a pipeline. Each line of a file is parsed by
//! simd-json (`to_tape_with_buffers`), serialised and written to another file.
//!
//! ```text
//! simd_json_loop INPUT OUTPUT
//! ```

#![allow(clippy::print_stderr)] // people read the output

use std::{
    env,
    error::Error,
    fs::File,
    io::{BufRead, BufReader, Write},
    time::Instant,
};

use simd_json::{Buffers, base::Writable, to_tape_with_buffers};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [input, output] = &arguments[..] else { return Err("expected INPUT and OUTPUT".into()) };
    let started = Instant::now();
    let mut input = BufReader::with_capacity(256 << 10, File::open(input)?);
    let mut output = File::create(output)?;
    let mut buffers = Buffers::new(4 << 10);
    let (mut line, mut out, mut events) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let end = line.strip_suffix(b"\n").unwrap_or(&line).len();
        let tape = to_tape_with_buffers(&mut line[..end], &mut buffers)?;
        tape.as_value().write(&mut out)?;
        out.push(b'\n');
        events += 1;
        if out.len() >= 256 << 10 {
            output.write_all(&out)?;
            out.clear();
        }
    }
    output.write_all(&out)?;
    eprintln!("simd_json_loop: {events} events, {:.3} s", started.elapsed().as_secs_f64());
    Ok(())
}
