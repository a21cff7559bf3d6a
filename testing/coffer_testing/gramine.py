"""A program under the system calls that Gramine has, and no others: what else it asks for fails as
there, with ENOSYS.

`python -m coffer_testing.gramine PROGRAM ARGUMENT…` becomes that program, under a filter of the
kernel's (seccomp) which its children keep. The list is that of Gramine's documentation ("Gramine
features", version 1.5): calls that it has, also those that it has in part. So this shows that a
program asks for no call that is not there; that it asks for none in a way that is not there, it
does not show.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

# Of x86-64.
_LISTED = """
read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11
brk=12 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 ioctl=16 pread64=17 pwrite64=18 readv=19
writev=20 access=21 pipe=22 select=23 sched_yield=24 msync=26 mincore=27 madvise=28 dup=32 dup2=33
pause=34 nanosleep=35 getitimer=36 alarm=37 setitimer=38 getpid=39 sendfile=40 socket=41
connect=42 accept=43 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 shutdown=48 bind=49 listen=50
getsockname=51 getpeername=52 socketpair=53 setsockopt=54 getsockopt=55 clone=56 fork=57 vfork=58
execve=59 exit=60 wait4=61 kill=62 uname=63 fcntl=72 flock=73 fsync=74 fdatasync=75 truncate=76
ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 mkdir=83 rmdir=84 creat=85
unlink=87 readlink=89 chmod=90 fchmod=91 chown=92 fchown=93 umask=95 gettimeofday=96 getrlimit=97
sysinfo=99 getuid=102 getgid=104 setuid=105 setgid=106 geteuid=107 getegid=108 setpgid=109
getppid=110 getpgrp=111 setsid=112 getgroups=115 setgroups=116 getpgid=121 getsid=124
rt_sigpending=127 rt_sigtimedwait=128 rt_sigsuspend=130 sigaltstack=131 mknod=133 statfs=137
fstatfs=138 getpriority=140 setpriority=141 sched_setparam=142 sched_getparam=143
sched_setscheduler=144 sched_getscheduler=145 sched_get_priority_max=146
sched_get_priority_min=147 sched_rr_get_interval=148 mlock=149 munlock=150 mlockall=151
munlockall=152 arch_prctl=158 setrlimit=160 chroot=161 sethostname=170 setdomainname=171
gettid=186 tkill=200 time=201 futex=202 sched_setaffinity=203 sched_getaffinity=204
epoll_create=213 getdents64=217 set_tid_address=218 fadvise64=221 clock_gettime=228
clock_getres=229 clock_nanosleep=230 exit_group=231 epoll_wait=232 epoll_ctl=233 tgkill=234
mbind=237 waitid=247 openat=257 mkdirat=258 mknodat=259 fchownat=260 newfstatat=262 unlinkat=263
renameat=264 readlinkat=267 fchmodat=268 faccessat=269 pselect6=270 ppoll=271 set_robust_list=273
get_robust_list=274 epoll_pwait=281 eventfd=284 fallocate=285 accept4=288 eventfd2=290
epoll_create1=291 dup3=292 pipe2=293 preadv=295 pwritev=296 recvmmsg=299 prlimit64=302
sendmmsg=307 getcpu=309 getrandom=318 mlock2=325
"""
# Numbers by name.
CALLS = {name: int(number) for name, number in (call.split("=") for call in _LISTED.split())}

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_X86_64 = 0xC000003E
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
# Codes of the kernel's classic BPF: load a word, compare with a constant, return.
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
# Where a call's number and its architecture are in what a filter is given.
_NUMBER, _ARCHITECTURE = 0, 4


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(calls: dict[str, int]) -> None:
    """From now on this process, and what it becomes, has these calls only.

    Raises:
        OSError: the kernel does not do it.
    """

    def one(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_so, if_not, value)

    program = [
        one(_LOAD, _ARCHITECTURE),
        one(_EQUAL, _X86_64, 1, 0),
        one(_RETURN, _KILL),
        one(_LOAD, _NUMBER),
    ]
    for number in sorted(calls.values()):
        program += [one(_EQUAL, number, 0, 1), one(_RETURN, _ALLOW)]
    program.append(one(_RETURN, _ERRNO | errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    asked = _Filter(len(program), b"".join(program))
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(asked), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def main() -> None:
    program, *arguments = sys.argv[1:]
    confine(CALLS)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
