use std::{io::{Read,Write},net::TcpListener,thread};
fn main(){ let l=TcpListener::bind("127.0.0.1:18082").unwrap();
 for s in l.incoming(){ let mut s=s.unwrap(); s.set_nodelay(true).unwrap(); thread::spawn(move||{
  let mut b=vec![0u8;64<<10]; let mut have=0usize; let mut left=0usize;
  loop { let n=match s.read(&mut b[have..]){Ok(0)|Err(_)=>return,Ok(n)=>n};
   if left>0 { let t=n.min(left); left-=t; if left==0 { if s.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").is_err(){return} } continue }
   have+=n; let h=&b[..have];
   if let Some(p)=h.windows(4).position(|w|w==b"\r\n\r\n"){ let t=std::str::from_utf8(&h[..p]).unwrap();
     let c=t.lines().find_map(|l|l.strip_prefix("Content-Length: ")).unwrap().parse::<usize>().unwrap();
     let body=have-p-4; have=0; left=c-body.min(c); if left==0 { if s.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").is_err(){return} } } } }); } }
