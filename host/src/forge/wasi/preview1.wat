;; WASI 0.1 (preview1) on top of WASI 0.2, for core modules of languages whose runtime still speaks
;; WASI 0.1: Go, and C and C++ with stdio.
;;
;; It allocates nothing and has no stack and no data in memory. That matters: Go takes every page
;; above its own for its own, so an adapter that grows the memory has its state overwritten. What
;; the host must write somewhere goes to 16 bytes at a fixed low address, whose content is put back
;; before the guest goes on.
;;
;; There are no files but the three standard streams, no arguments, no environment, no sockets.
(module
  (import "env" "memory" (memory 0))
  (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $get_stdout (result i32)))
  (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $get_stderr (result i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
    (func $write_and_flush (param i32 i32 i32 i32)))
  (import "wasi:io/error@0.2.0" "[resource-drop]error" (func $drop_error (param i32)))
  (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
  (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop_pollable (param i32)))
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $monotonic_now (result i64)))
  (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration"
    (func $subscribe_duration (param i64) (result i32)))
  (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall_now (param i32)))
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))

  ;; Handles of the output streams, once they were asked for.
  (global $stdout (mut i32) (i32.const -1))
  (global $stderr (mut i32) (i32.const -1))

  ;; Whether the guest may call the host now. While the host writes values into the guest, through
  ;; `cabi_realloc`, it may not (canonical ABI), and a runtime that looks at the clock there, as
  ;; Go's collector does, would trap. Such a runtime says so with `tandem_may_leave`; until it may
  ;; again, it reads the last times, a microsecond later each.
  (global $may_leave (mut i32) (i32.const 1))
  (func (export "tandem_may_leave") (param $may i32)
    (global.set $may_leave (local.get $may)))

  ;; Nanoseconds at the last look.
  (global $last_monotonic (mut i64) (i64.const 0))
  (global $last_wall (mut i64) (i64.const 0))

  ;; Nanoseconds of the monotonic clock; never less than before.
  (func $monotonic (result i64) (local $now i64)
    (if (global.get $may_leave)
      (then (local.set $now (call $monotonic_now)))
      (else (local.set $now (i64.add (global.get $last_monotonic) (i64.const 1000)))))
    (if (i64.gt_u (local.get $now) (global.get $last_monotonic))
      (then (global.set $last_monotonic (local.get $now))))
    (global.get $last_monotonic))

  ;; Nanoseconds since 1970.
  (func $wall (result i64) (local $low i64) (local $high i64)
    (if (global.get $may_leave)
      (then
        (local.set $low (i64.load (i32.const 16)))
        (local.set $high (i64.load (i32.const 24)))
        (call $wall_now (i32.const 16))
        (global.set $last_wall
          (i64.add
            (i64.mul (i64.load (i32.const 16)) (i64.const 1000000000))
            (i64.load32_u (i32.const 24))))
        (i64.store (i32.const 16) (local.get $low))
        (i64.store (i32.const 24) (local.get $high)))
      (else (global.set $last_wall (i64.add (global.get $last_wall) (i64.const 1000)))))
    (global.get $last_wall))

  ;; Nanoseconds of a clock by its number: 0 is the wall clock, 1 to 3 the monotonic one.
  (func $time (param $clock i32) (result i64)
    (if (result i64) (local.get $clock) (then (call $monotonic)) (else (call $wall))))

  (func (export "clock_time_get") (param $clock i32) (param i64) (param $out i32) (result i32)
    (if (i32.gt_u (local.get $clock) (i32.const 3)) (then (return (i32.const 28)))) ;; inval
    (i64.store (local.get $out) (call $time (local.get $clock)))
    (i32.const 0))

  (func (export "clock_res_get") (param $clock i32) (param $out i32) (result i32)
    (if (i32.gt_u (local.get $clock) (i32.const 3)) (then (return (i32.const 28)))) ;; inval
    (i64.store (local.get $out) (i64.const 1000))
    (i32.const 0))

  (func $sleep (param $nanoseconds i64) (local $pollable i32)
    (if (global.get $may_leave)
      (then
        (local.set $pollable (call $subscribe_duration (local.get $nanoseconds)))
        (call $block (local.get $pollable))
        (call $drop_pollable (local.get $pollable)))
      (else
        (global.set $last_monotonic (i64.add (global.get $last_monotonic) (local.get $nanoseconds))))))

  ;; How long a subscription to a clock has still to wait.
  (func $remaining (param $subscription i32) (result i64) (local $timeout i64) (local $now i64)
    (local.set $timeout (i64.load offset=24 (local.get $subscription)))
    (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $subscription)) (i32.const 1)))
      (then (return (local.get $timeout))))
    (local.set $now (call $time (i32.load offset=16 (local.get $subscription))))
    (if (i64.ge_u (local.get $now) (local.get $timeout)) (then (return (i64.const 0))))
    (i64.sub (local.get $timeout) (local.get $now)))

  ;; Sleeps to the earliest time; a stream is ready at once, since none of them waits.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32)
    (result i32)
    (local $at i32) (local $end i32) (local $wait i64) (local $first i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 28)))) ;; inval
    (local.set $end (i32.add (local.get $in) (i32.mul (local.get $count) (i32.const 48))))
    (local.set $first (local.get $out))
    (local.set $wait (i64.const -1))
    (local.set $at (local.get $in))
    (loop $next
      (if (i32.load8_u offset=8 (local.get $at))
        (then (local.set $wait (i64.const 0)))
        (else
          (if (i64.lt_u (call $remaining (local.get $at)) (local.get $wait))
            (then (local.set $wait (call $remaining (local.get $at)))))))
      (br_if $next
        (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 48))) (local.get $end))))
    (if (i64.ne (local.get $wait) (i64.const 0)) (then (call $sleep (local.get $wait))))
    (local.set $at (local.get $in))
    (loop $next
      (block $done
        (if (i32.eqz (i32.load8_u offset=8 (local.get $at)))
          (then (br_if $done (i64.gt_u (call $remaining (local.get $at)) (local.get $wait)))))
        (i64.store (local.get $out) (i64.load (local.get $at)))
        (i64.store offset=8 (local.get $out) (i64.const 0))
        (i64.store offset=16 (local.get $out) (i64.const 0))
        (i64.store offset=24 (local.get $out) (i64.const 0))
        (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $at)))
        (if (i32.load8_u offset=8 (local.get $at))
          (then
            (i64.store offset=16 (local.get $out) (i64.const 1))
            (if (i32.gt_u (i32.load offset=16 (local.get $at)) (i32.const 2))
              (then (i32.store16 offset=8 (local.get $out) (i32.const 8)))))) ;; badf
        (local.set $out (i32.add (local.get $out) (i32.const 32))))
      (br_if $next
        (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 48))) (local.get $end))))
    (i32.store (local.get $events)
      (i32.div_u (i32.sub (local.get $out) (local.get $first)) (i32.const 32)))
    (i32.const 0))

  ;; The handle of the output stream `fd`, or -1.
  (func $stream (param $fd i32) (result i32)
    (if (i32.eq (local.get $fd) (i32.const 1))
      (then
        (if (i32.eq (global.get $stdout) (i32.const -1)) (then (global.set $stdout (call $get_stdout))))
        (return (global.get $stdout))))
    (if (i32.eq (local.get $fd) (i32.const 2))
      (then
        (if (i32.eq (global.get $stderr) (i32.const -1)) (then (global.set $stderr (call $get_stderr))))
        (return (global.get $stderr))))
    (i32.const -1))

  ;; Writes at most 4096 bytes, the most that the host takes at once; 0 or an error.
  (func $write (param $stream i32) (param $from i32) (param $length i32) (result i32)
    (local $low i64) (local $high i64) (local $failed i32) (local $closed i32) (local $error i32)
    (local.set $low (i64.load (i32.const 16)))
    (local.set $high (i64.load (i32.const 24)))
    (call $write_and_flush (local.get $stream) (local.get $from) (local.get $length) (i32.const 16))
    (local.set $failed (i32.load8_u (i32.const 16)))
    (local.set $closed (i32.load8_u (i32.const 20)))
    (local.set $error (i32.load (i32.const 24)))
    (i64.store (i32.const 16) (local.get $low))
    (i64.store (i32.const 24) (local.get $high))
    (if (i32.eqz (local.get $failed)) (then (return (i32.const 0))))
    (if (i32.eqz (local.get $closed)) (then (call $drop_error (local.get $error))))
    (i32.const 29)) ;; io

  (func (export "fd_write") (param $fd i32) (param $list i32) (param $count i32) (param $written i32)
    (result i32)
    (local $stream i32) (local $from i32) (local $left i32) (local $part i32) (local $total i32)
    ;; What is written while the host may not be called is lost.
    (if (global.get $may_leave)
      (then
        (local.set $stream (call $stream (local.get $fd)))
        (if (i32.eq (local.get $stream) (i32.const -1)) (then (return (i32.const 8)))))) ;; badf
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $from (i32.load (local.get $list)))
        (local.set $left (i32.load offset=4 (local.get $list)))
        (block $empty
          (loop $more
            (br_if $empty (i32.eqz (local.get $left)))
            (local.set $part (i32.const 4096))
            (if (i32.lt_u (local.get $left) (i32.const 4096)) (then (local.set $part (local.get $left))))
            (if (global.get $may_leave)
              (then
                (if (call $write (local.get $stream) (local.get $from) (local.get $part))
                  (then (return (i32.const 29)))))) ;; io
            (local.set $from (i32.add (local.get $from) (local.get $part)))
            (local.set $left (i32.sub (local.get $left) (local.get $part)))
            (local.set $total (i32.add (local.get $total) (local.get $part)))
            (br $more)))
        (local.set $list (i32.add (local.get $list) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $total))
    (i32.const 0))

  ;; Standard input is empty.
  (func (export "fd_read") (param $fd i32) (param i32 i32) (param $read i32) (result i32)
    (if (local.get $fd) (then (return (i32.const 8)))) ;; badf
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))

  ;; The standard streams are terminals to a C library, which then writes after each line: what a
  ;; plugin printed before a trap is not lost in a buffer.
  (func (export "fd_fdstat_get") (param $fd i32) (param $out i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8)))) ;; badf
    (i64.store (local.get $out) (i64.const 2)) ;; a character device without flags
    (i64.store offset=8 (local.get $out) (i64.const 0x8000042)) ;; may be read, written, polled
    (i64.store offset=16 (local.get $out) (i64.const 0))
    (i32.const 0))

  (func (export "fd_filestat_get") (param $fd i32) (param $out i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8)))) ;; badf
    (memory.fill (local.get $out) (i32.const 0) (i32.const 64))
    (i32.store8 offset=16 (local.get $out) (i32.const 2)) ;; a character device
    (i32.const 0))

  (func (export "fd_close") (export "fd_sync") (export "fd_datasync") (param $fd i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8)))) ;; badf
    (i32.const 0))

  (func (export "fd_seek") (param $fd i32) (param i64 i32 i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8)))) ;; badf
    (i32.const 70)) ;; spipe

  (func (export "fd_tell") (param $fd i32) (param i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8)))) ;; badf
    (i32.const 70)) ;; spipe

  (func (export "args_sizes_get") (export "environ_sizes_get") (param $count i32) (param $bytes i32)
    (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))

  (func (export "args_get") (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  (func (export "random_get") (param $to i32) (param $length i32) (result i32) (local $word i64)
    (block $tail
      (loop $more
        (br_if $tail (i32.lt_u (local.get $length) (i32.const 8)))
        (i64.store (local.get $to) (call $random))
        (local.set $to (i32.add (local.get $to) (i32.const 8)))
        (local.set $length (i32.sub (local.get $length) (i32.const 8)))
        (br $more)))
    (if (i32.eqz (local.get $length)) (then (return (i32.const 0))))
    (local.set $word (call $random))
    (loop $more
      (i64.store8 (local.get $to) (local.get $word))
      (local.set $word (i64.shr_u (local.get $word) (i64.const 8)))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (br_if $more (local.tee $length (i32.sub (local.get $length) (i32.const 1)))))
    (i32.const 0))

  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; WASI 0.2.0 knows only success and failure.
  (func (export "proc_exit") (param $code i32)
    (if (global.get $may_leave)
      (then (call $exit (i32.ne (local.get $code) (i32.const 0)))))
    (unreachable))

  (func (export "proc_raise") (param i32) (result i32) (i32.const 52)) ;; nosys

  ;; Nothing else is open: badf.
  (func (export "fd_prestat_get") (export "fd_fdstat_set_flags") (export "fd_renumber")
    (export "sock_shutdown")
    (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (export "fd_allocate") (param i32 i64 i64) (result i32)
    (i32.const 8))
  (func (export "fd_advise") (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32)
    (i32.const 8))
  (func (export "fd_pread") (export "fd_pwrite") (export "fd_readdir") (param i32 i32 i32 i64 i32)
    (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (export "path_create_directory")
    (export "path_remove_directory") (export "path_unlink_file") (export "sock_accept")
    (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_get") (export "path_symlink") (export "sock_send")
    (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_readlink") (export "path_rename") (export "sock_recv")
    (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32)
    (i32.const 8))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)
    (i32.const 8)))
