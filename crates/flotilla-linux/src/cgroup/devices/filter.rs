//! The filter of v2: a small program that the kernel runs whenever a process of the group opens a device
//! (`BPF_PROG_TYPE_CGROUP_DEVICE`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{Denied, Kind};

/// One instruction (the kernel's `struct bpf_insn`, include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The target in the lower four bits, the source in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Registers: the result, the first argument, and three of our own.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const MAJOR: u8 = 3;
const MINOR: u8 = 4;
const ACCESS: u8 = 5;

/// Instructions: class, size or source, operation (`include/uapi/linux/bpf_common.h`).
const LOAD_WORD: u8 = 0x61; // BPF_LDX | BPF_W | BPF_MEM
const MOVE_REGISTER: u8 = 0xbf; // BPF_ALU64 | BPF_X | BPF_MOV
const MOVE_VALUE: u8 = 0xb7; // BPF_ALU64 | BPF_K | BPF_MOV
const AND_VALUE: u8 = 0x57; // BPF_ALU64 | BPF_K | BPF_AND
const SHIFT_RIGHT: u8 = 0x77; // BPF_ALU64 | BPF_K | BPF_RSH
const JUMP_UNLESS_EQUAL: u8 = 0x55; // BPF_JMP | BPF_K | BPF_JNE
const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT

/// `struct bpf_cgroup_dev_ctx`: what is done (upper half) to what kind of device (lower half), major, minor.
const ACCESS_AND_KIND_AT: i16 = 0;
const MAJOR_AT: i16 = 4;
const MINOR_AT: i16 = 8;
/// `BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE`; the third is the making of a device file.
const READ_OR_WRITE: i32 = 2 | 4;
const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;

const ALLOW: i32 = 1;
const DENY: i32 = 0;

const fn instruction(code: u8, target: u8, source: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: source << 4 | target, offset, value }
}

/// The program that denies these.
pub(super) fn program(denied: &[Denied]) -> Vec<Instruction> {
    let mut program = vec![
        instruction(LOAD_WORD, KIND, CONTEXT, ACCESS_AND_KIND_AT, 0),
        instruction(LOAD_WORD, MAJOR, CONTEXT, MAJOR_AT, 0),
        instruction(LOAD_WORD, MINOR, CONTEXT, MINOR_AT, 0),
        instruction(MOVE_REGISTER, ACCESS, KIND, 0, 0),
        instruction(SHIFT_RIGHT, ACCESS, 0, 0, 16),
        instruction(AND_VALUE, KIND, 0, 0, 0xffff),
        instruction(AND_VALUE, ACCESS, 0, 0, READ_OR_WRITE),
        // Whoever neither reads nor writes may do so.
        instruction(JUMP_UNLESS_EQUAL, ACCESS, 0, 2, 0),
    ];
    program.extend(answer(ALLOW));
    for denied in denied {
        program.extend(test(*denied));
    }
    program.extend(answer(ALLOW));
    program
}

fn answer(answer: i32) -> [Instruction; 2] {
    [instruction(MOVE_VALUE, RESULT, 0, 0, answer), instruction(EXIT, 0, 0, 0, 0)]
}

/// Denies these, and else goes on to the next test.
fn test(Denied { kind, major, minor }: Denied) -> Vec<Instruction> {
    let kind = match kind {
        Kind::Block => BLOCK,
        Kind::Character => CHARACTER,
    };
    let number = |number: u32| number.cast_signed();
    let mut conditions = vec![(KIND, kind)];
    conditions.extend(major.map(|major| (MAJOR, number(major))));
    conditions.extend(minor.map(|minor| (MINOR, number(minor))));
    let deny = answer(DENY);
    let mut test = Vec::new();
    for (left, (register, value)) in (0_i16..).zip(conditions.iter().rev()) {
        // Past the conditions that follow and the answer.
        test.insert(0, instruction(JUMP_UNLESS_EQUAL, *register, 0, left + 2, *value));
    }
    test.extend(deny);
    test
}

/// Attaches the program to a group, beside those that the groups below it may have: all of them have to allow.
pub(super) fn attach(group: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let loaded = load(program)?;
    let mut attach = Attach {
        target: group.as_raw_fd().cast_unsigned(),
        program: loaded.as_raw_fd().cast_unsigned(),
        kind: CGROUP_DEVICE_ATTACH,
        flags: ALLOW_MULTI,
    };
    bpf(PROG_ATTACH, &mut attach).map(drop)
}

#[expect(unsafe_code, reason = "a descriptor that the kernel has just made")]
fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"";
    let mut load = Load {
        kind: CGROUP_DEVICE_PROGRAM,
        count: u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let descriptor = bpf(PROG_LOAD, &mut load)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Commands of bpf(2), and constants of its arguments.
const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const CGROUP_DEVICE_PROGRAM: u32 = 15;
const CGROUP_DEVICE_ATTACH: u32 = 6;
const ALLOW_MULTI: u32 = 2;

/// The beginning of `union bpf_attr` for each command; the kernel takes what is not there for zero.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

#[expect(unsafe_code, reason = "a system call that no crate here has")]
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes of the attributes as they have. What they point to (instructions and licence)
    // is borrowed by the caller for longer than the call.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(done).map_err(io::Error::other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers, by interpreting it.
    fn answer_of(program: &[Instruction], kind: i32, access: i32, major: u32, minor: u32) -> i32 {
        let context = [i64::from(access << 16 | kind), i64::from(major), i64::from(minor)];
        let mut registers = [0_i64; 11];
        let mut next = 0_usize;
        loop {
            let Instruction { code, registers: both, offset, value } = program[next];
            let (target, source) = (usize::from(both & 15), usize::from(both >> 4));
            let value = i64::from(value);
            next += 1;
            let jump = match code {
                LOAD_WORD => {
                    assert_eq!(source, usize::from(CONTEXT));
                    registers[target] = context[usize::try_from(offset / 4).unwrap()];
                    false
                }
                MOVE_REGISTER => {
                    registers[target] = registers[source];
                    false
                }
                MOVE_VALUE => {
                    registers[target] = value;
                    false
                }
                AND_VALUE => {
                    registers[target] &= value;
                    false
                }
                SHIFT_RIGHT => {
                    registers[target] >>= value;
                    false
                }
                JUMP_UNLESS_EQUAL => registers[target] != value,
                EXIT => return i32::try_from(registers[usize::from(RESULT)]).unwrap(),
                other => panic!("an instruction that is not ours: {other:#x}"),
            };
            if jump {
                next += usize::try_from(offset).unwrap();
            }
        }
    }

    #[test]
    fn what_is_denied_can_be_made_but_not_opened_and_all_else_can() {
        let denied = |kind, major, minor| Denied { kind, major, minor };
        let program = program(&[
            denied(Kind::Block, None, None),
            denied(Kind::Character, Some(1), Some(1)),
            denied(Kind::Character, Some(13), None),
        ]);
        let answer = |kind, access, major, minor| answer_of(&program, kind, access, major, minor);
        let (make, read, write) = (1, 2, 4);
        for access in [read, write, read | write, make | read] {
            assert_eq!(answer(BLOCK, access, 8, 0), DENY);
            assert_eq!(answer(CHARACTER, access, 1, 1), DENY);
            assert_eq!(answer(CHARACTER, access, 13, 64), DENY);
            assert_eq!(answer(CHARACTER, access, 1, 3), ALLOW);
            assert_eq!(answer(CHARACTER, access, 10, 229), ALLOW);
        }
        assert_eq!(answer(BLOCK, make, 8, 0), ALLOW);
        assert_eq!(answer(CHARACTER, make, 1, 1), ALLOW);
    }

    #[test]
    fn an_instruction_has_the_layout_that_the_kernel_wants() {
        assert_eq!(size_of::<Instruction>(), 8);
        // BPF_JMP_IMM(BPF_JNE, BPF_REG_2, 1, 2)
        let jump = test(Denied { kind: Kind::Block, major: None, minor: None })[0];
        assert_eq!(jump, Instruction { code: 0x55, registers: 0x02, offset: 2, value: 1 });
        // BPF_LDX_MEM(BPF_W, BPF_REG_3, BPF_REG_1, 4)
        assert_eq!(program(&[])[1], Instruction { code: 0x61, registers: 0x13, offset: 4, value: 0 });
    }
}
