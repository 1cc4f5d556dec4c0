//! The seam to the kernel: thin safe wrappers of the system calls that the standard library does not have.
//!
//! Nothing here decides anything. Every function maps to one call and returns its `io::Error`; callers add what they were about.
#![expect(unsafe_code, reason = "the runtime's seam to the kernel; each block says why it is sound")]

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub type Pid = libc::pid_t;

/// Most descriptors that one message carries: the three of a process, and one to spare.
pub const FDS_MAX: usize = 4;

pub fn c_string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(text.as_ref().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "contains a NUL byte"))
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_long(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the kernel has just handed out this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Forks; `None` in the child. Only for single-threaded processes: the child goes on with ordinary code.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the shim never starts a thread, so no lock can be held by a thread that the child lacks.
    match check(unsafe { libc::fork() })? {
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Ends this process without running exit handlers that belong to its parent's copy.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: no pointers; never returns.
    unsafe { libc::_exit(code) }
}

pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

pub fn setns(namespace: impl AsFd, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the length of the call.
    check(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), kind) }).map(drop)
}

pub fn sethostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe one live string.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

pub fn mount(source: &str, target: &Path, kind: &str, flags: libc::c_ulong, data: &str) -> io::Result<()> {
    let (source, target, kind, data) = (c_string(source)?, c_string(target)?, c_string(kind)?, c_string(data)?);
    // SAFETY: all pointers are to live NUL-terminated strings; the kernel copies them.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) })
        .map(drop)
}

pub fn unmount_detached(target: &Path) -> io::Result<()> {
    let target = c_string(target)?;
    // SAFETY: the pointer is to a live NUL-terminated string.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Makes the current folder, a mount point, the root; the old root lies over it until it is unmounted.
pub fn pivot_root_here() -> io::Result<()> {
    let here = c".";
    // SAFETY: both pointers are to a static string.
    check_long(unsafe { libc::syscall(libc::SYS_pivot_root, here.as_ptr(), here.as_ptr()) }).map(drop)
}

/// A detached copy of the mounts at `path` and below, relative to `folder` unless absolute; an empty path is `folder` itself.
pub fn open_tree(folder: Option<BorrowedFd<'_>>, path: &Path) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: libc::c_uint = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as u32 | libc::AT_RECURSIVE as u32 | libc::AT_EMPTY_PATH as u32;
    let path = c_string(path)?;
    let folder = folder.map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd());
    // SAFETY: the path is a live NUL-terminated string, the descriptor is borrowed.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, folder, path.as_ptr(), flags) } as libc::c_int)
}

pub fn move_mount(mount: impl AsFd, target: &Path) -> io::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
    const MOVE_MOUNT_T_SYMLINKS: libc::c_uint = 0x10;
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS;
    let target = c_string(target)?;
    let mount = mount.as_fd().as_raw_fd();
    // SAFETY: both paths are live NUL-terminated strings.
    let result =
        unsafe { libc::syscall(libc::SYS_move_mount, mount, c"".as_ptr(), libc::AT_FDCWD, target.as_ptr(), flags) };
    check_long(result).map(drop)
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct MountAttributes {
    pub set: u64,
    pub clear: u64,
    pub propagation: u64,
    pub user_namespace: u64,
}

pub const MOUNT_ATTR_RDONLY: u64 = 1;

pub fn mount_setattr(mount: impl AsFd, recursive: bool, attributes: MountAttributes) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let (fd, size) = (mount.as_fd().as_raw_fd(), size_of::<MountAttributes>());
    // SAFETY: the struct has the kernel's layout, and its size is passed beside it.
    let result =
        unsafe { libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, &raw const attributes, size) };
    check_long(result).map(drop)
}

/// Makes a detached mount of `kind` from `key=value` options, which may be longer than a page in all.
pub fn file_system(kind: &str, options: &[(&str, &OsStr)], flags: &[&str]) -> io::Result<OwnedFd> {
    const FSCONFIG_SET_FLAG: libc::c_uint = 0;
    const FSCONFIG_SET_STRING: libc::c_uint = 1;
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    let kind = c_string(kind)?;
    // SAFETY: the name is a live NUL-terminated string.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1) } as libc::c_int)?;
    let configure = |command: libc::c_uint, key: Option<&CStr>, value: Option<&CStr>| {
        let key = key.map_or(std::ptr::null(), CStr::as_ptr);
        let value = value.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the pointers are null or to live NUL-terminated strings, as each command wants them.
        check_long(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0) })
    };
    for (key, value) in options {
        configure(FSCONFIG_SET_STRING, Some(&c_string(key)?), Some(&c_string(value)?))?;
    }
    for flag in flags {
        configure(FSCONFIG_SET_FLAG, Some(&c_string(flag)?), None)?;
    }
    configure(FSCONFIG_CMD_CREATE, None, None)?;
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) } as libc::c_int)
}

/// Opens `path` inside `folder` as a place; nothing on the way may lead out of it.
pub fn open_beneath(folder: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    const RESOLVE_NO_MAGICLINKS: u64 = 2;
    const RESOLVE_BENEATH: u64 = 8;
    // `struct open_how`: flags, mode, resolve.
    let how: [u64; 3] = [(libc::O_PATH | libc::O_CLOEXEC) as u64, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS];
    let (path, size) = (c_string(path)?, size_of_val(&how));
    let folder = folder.as_fd().as_raw_fd();
    // SAFETY: the array has the layout of `struct open_how`, and its size is passed beside it.
    owned(unsafe { libc::syscall(libc::SYS_openat2, folder, path.as_ptr(), how.as_ptr(), size) } as libc::c_int)
}

pub fn make_device(path: &Path, device: u64, is_block: bool) -> io::Result<()> {
    let kind = if is_block { libc::S_IFBLK } else { libc::S_IFCHR };
    let path = c_string(path)?;
    // SAFETY: the path is a live NUL-terminated string.
    check(unsafe { libc::mknod(path.as_ptr(), kind | 0o666, device) }).map(drop)
}

/// Sets the creation mask to nothing, so that modes are as asked for.
pub fn clear_umask(mask: libc::mode_t) {
    // SAFETY: no pointers; cannot fail.
    unsafe { libc::umask(mask) };
}

pub fn prctl(option: libc::c_int, argument: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: only options with one number are passed by this crate.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) })
}

/// Sets the name by which tools list this process.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: the pointer is to a live NUL-terminated string, of which the kernel copies 16 bytes at most.
    check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }).map(drop)
}

/// Closes every descriptor of a process that will not use any again.
pub fn close_all() {
    // SAFETY: no pointers; the caller never touches a descriptor afterwards and ends by a signal, without running drops.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

/// Sleeps until a signal comes.
pub fn pause() {
    // SAFETY: no pointers.
    unsafe { libc::pause() };
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// One 32-bit half of effective, permitted and inheritable.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// The permitted set of this process, as bits.
pub fn capabilities_permitted() -> io::Result<u64> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut halves = [CapabilityHalf::default(); 2];
    // SAFETY: version 3 writes exactly two halves.
    check_long(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) })?;
    Ok(u64::from(halves[0].permitted) | u64::from(halves[1].permitted) << 32)
}

/// Sets effective and permitted to `bits`, inheritable to nothing.
pub fn set_capabilities(bits: u64) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let half = |bits: u32| CapabilityHalf { effective: bits, permitted: bits, inheritable: 0 };
    let halves = [half(bits as u32), half((bits >> 32) as u32)];
    // SAFETY: version 3 reads exactly two halves.
    check_long(unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) }).map(drop)
}

pub fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length describe one live slice.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) }).map(drop)
}

pub fn set_group(gid: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setresgid(gid, gid, gid) }).map(drop)
}

pub fn set_user(uid: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map(drop)
}

/// Real user and group of this process.
pub fn ids() -> (u32, u32) {
    // SAFETY: no pointers; cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

pub fn install_seccomp(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the struct describes one live slice, which the kernel copies.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) }).map(drop)
}

pub fn set_rlimit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the struct is live; an unknown resource is refused by the kernel.
    check(unsafe { libc::setrlimit(resource, &raw const limit) }).map(drop)
}

pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// A descriptor that becomes readable when the process ends.
pub fn process_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, libc::PIDFD_NONBLOCK) } as libc::c_int)
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
}

/// Reaps one ended child, if there is any.
pub fn reap_any() -> io::Result<Option<(Pid, Ended)>> {
    let mut status = 0;
    // SAFETY: the status pointer is live.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) } {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        },
        pid if libc::WIFSIGNALED(status) => Ok(Some((pid, Ended::Signalled(libc::WTERMSIG(status))))),
        pid => Ok(Some((pid, Ended::Exited(libc::WEXITSTATUS(status))))),
    }
}

/// Waits for one child to end.
pub fn wait_for(pid: Pid) -> io::Result<Ended> {
    let mut status = 0;
    loop {
        // SAFETY: the status pointer is live.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(Ended::Signalled(libc::WTERMSIG(status))),
            Ok(_) => return Ok(Ended::Exited(libc::WEXITSTATUS(status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Blocks the signals and gives a descriptor that reads them.
pub fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is made by sigemptyset before it is used, and lives through both calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
    }
}

/// Takes all waiting signals off the descriptor.
pub fn drain_signals(fd: &OwnedFd) -> Vec<i32> {
    let mut seen = Vec::new();
    loop {
        // SAFETY: the struct is plain numbers, for which zeroes are valid; its exact size is read.
        let (info, read) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let read = libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size_of::<libc::signalfd_siginfo>());
            (info, read)
        };
        if read != size_of::<libc::signalfd_siginfo>() as isize {
            return seen;
        }
        seen.push(info.ssi_signo as i32);
    }
}

/// Lets a new program start with no signal blocked and none ignored.
pub fn reset_signals() {
    // SAFETY: the set is made by sigemptyset before it is used; SIG_DFL is a valid disposition for every signal.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: pointer and length describe one live slice.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) }) {
        Ok(ready) => Ok(ready as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

pub fn wait_until_readable(fd: impl AsFd, timeout_ms: i32) -> io::Result<()> {
    let mut fds = [libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    match poll(&mut fds, timeout_ms)? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// A pipe whose ends close on exec: read end, write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((owned(fds[0])?, owned(fds[1])?))
}

pub fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed; no pointers.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(drop)
}

pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe one live buffer.
    let read = unsafe { libc::read(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(read as usize) }
}

pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe one live slice.
    let written = unsafe { libc::write(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(written as usize) }
}

/// Puts `fd` in the place of standard descriptor `number`, to stay open over exec.
pub fn place_fd(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        // SAFETY: no pointers.
        return check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }).map(drop);
    }
    // SAFETY: the source is borrowed; the target is one of the standard descriptors, which nobody owns in the child.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }).map(drop)
}

/// Marks all descriptors but the standard ones to close on exec.
pub fn close_others_on_exec() -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: no pointers; nothing is closed yet.
    check_long(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC) }).map(drop)
}

pub fn new_session() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Makes standard input the controlling terminal of this session.
pub fn control_terminal() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }).map(drop)
}

/// Unlocks a terminal's master end and opens the other end.
pub fn open_terminal(master: &OwnedFd) -> io::Result<OwnedFd> {
    let unlocked: libc::c_int = 0;
    // SAFETY: the ioctl reads one int.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) })?;
    // SAFETY: no pointers; TIOCGPTPEER takes open flags.
    owned(unsafe {
        libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC)
    })
}

pub fn resize_terminal(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the struct is live and of the type that the ioctl reads.
    check(unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }).map(drop)
}

/// Replaces this process; returns only on failure.
pub fn exec(path: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both arrays end with a null pointer and their strings outlive the call.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Sends bytes and descriptors as one message.
pub fn send_with_fds(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: every pointer in the header is to a buffer of this frame; the control buffer is aligned and holds `FDS_MAX`
    // descriptors with their header, and no more are copied into it.
    let sent = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !raw.is_empty() {
            assert!(raw.len() <= FDS_MAX, "a message carries few descriptors");
            let size = (raw.len() * size_of::<RawFd>()) as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(size) as _;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), libc::CMSG_DATA(message), size as usize);
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Receives bytes, and adds the descriptors that came with them to `fds`.
pub fn receive_with_fds(socket: BorrowedFd<'_>, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: every pointer in the header is to a buffer of this frame with its true length; the descriptors that the kernel
    // puts into the control buffer are new and owned by nobody else.
    let received = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let received = libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while received >= 0 && !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                for index in 0..count {
                    let fd = libc::CMSG_DATA(message).cast::<RawFd>().add(index).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        received
    };
    if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
}

/// Gives back the pages of this program's code that only its start needed; what is needed again comes from the page cache.
///
/// The kernel brings in sixteen pages for each that is touched, so that a start leaves most of a large program resident.
pub fn give_back_code() -> io::Result<()> {
    let program = std::fs::read_link("/proc/self/exe")?;
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // Code alone is as it is in the file: constants may have been changed by the loader before they were sealed.
        let is_code = rights == "r-xp";
        let is_ours = words.nth(3).is_some_and(|path| Path::new(path) == program);
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let ends = range.split_once('-').and_then(|(from, to)| Some((number(from)?, number(to)?)));
        let Some((from, to)) = ends.filter(|_| is_code && is_ours) else { continue };
        // SAFETY: the kernel has just told that this range is code, mapped from the program's file and never written, so that
        // what is read there later is the same as before.
        check(unsafe { libc::madvise(std::ptr::without_provenance_mut(from), to - from, libc::MADV_DONTNEED) })?;
    }
    Ok(())
}

/// A netlink socket for links, addresses and routes of the network namespace that this process is in now.
pub fn route_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let socket =
        owned(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) })?;
    // SAFETY: the address is plain numbers, for which zeroes are valid; its true length is passed.
    unsafe {
        let mut address: libc::sockaddr_nl = std::mem::zeroed();
        address.nl_family = libc::AF_NETLINK as u16;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_nl>() as u32))?;
    }
    Ok(socket)
}
