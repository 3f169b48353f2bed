//! The operations of the file system, as the kernel asks for them.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use super::tree::{Attributes, Tree};
use super::{Operation, Shared};

/// Time for which the kernel keeps names and attributes. Nobody else changes them.
const TTL: Duration = Duration::from_hours(1);

/// A mounted file system.
pub(super) struct Mounted(pub(super) Arc<Shared>);

fn error(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

/// Returns the attributes for the kernel. All files belong to the user of this process, and have no times.
fn attributes(it: Attributes) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    let (kind, perm) =
        if it.is_folder { (FileType::Directory, 0o700) } else { (FileType::RegularFile, 0o600) };
    FileAttr {
        ino: INodeNo(it.node),
        size: it.len,
        blocks: it.len.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

fn reply_entry(reply: ReplyEntry, result: Result<Attributes, Errno>) {
    match result {
        Ok(found) => reply.entry(&TTL, &attributes(found), Generation(0)),
        Err(errno) => reply.error(error(errno)),
    }
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

impl Mounted {
    fn look<T>(&self, find: impl FnOnce(&Tree) -> Result<T, Errno>) -> Result<T, Errno> {
        let state = self.0.lock();
        if state.is_off { Err(Errno::IO) } else { find(&state.tree) }
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(reply, self.look(|tree| tree.lookup(parent.0, name)));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(|tree| tree.attributes(node.0)) {
            Ok(found) => reply.attr(&TTL, &attributes(found)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _mode: Option<u32>,
        _user: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _: Option<FileHandle>,
        _created: Option<SystemTime>,
        _renamed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let result = match size {
            Some(len) => {
                self.0.operate(Operation::Resize(node.0, len), |it| it.set_len(node.0, len))
            }
            None => self.look(|tree| tree.attributes(node.0)),
        };
        match result {
            Ok(found) => reply.attr(&TTL, &attributes(found)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let result = self.0.operate(Operation::Name, |it| it.create(parent.0, name, true));
        reply_entry(reply, result);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.0.operate(Operation::Name, |it| it.remove(parent.0, name, false));
        reply_empty(reply, result);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.0.operate(Operation::Name, |it| it.remove(parent.0, name, true));
        reply_empty(reply, result);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(fuser::Errno::EINVAL);
        }
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        reply_empty(reply, self.0.operate(Operation::Name, |it| it.rename(from, to)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.0.operate(Operation::Name, |it| it.create(parent.0, name, false)) {
            Ok(created) => {
                let (handle, flags) = (FileHandle(0), FopenFlags::empty());
                reply.created(&TTL, &attributes(created), Generation(0), handle, flags);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.look(|tree| tree.read(node.0, offset, size as usize).map(<[u8]>::to_vec)) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let operation = Operation::Write(node.0, offset + data.len() as u64);
        match self.0.operate(operation, |it| it.write(node.0, offset, data)) {
            // A request has at most 16 MiB.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.0.operate(Operation::Sync(node.0), |it| it.sync(node.0)));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.0.operate(Operation::SyncFolder, |it| it.sync_folder(node.0)));
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.look(|tree| tree.list(node.0)) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(error(errno)),
        };
        for (index, (name, it)) in (1..).zip(entries).skip(usize::try_from(offset).unwrap_or(0)) {
            let kind = if it.is_folder { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(it.node), index, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
