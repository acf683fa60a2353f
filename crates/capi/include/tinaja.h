// Tinaja's store for C: cached objects as files, and where they lie on disk. See docs/c-api.md.
// Made by cbindgen from crates/capi/src; do not edit. TINAJA_HEADER=write cargo test -p tinaja-capi --test header
// regenerates it.

#ifndef TINAJA_H
#define TINAJA_H

#include <stddef.h>
#include <stdint.h>

// Done.
#define TINAJA_OK 0

// A required pointer is null.
#define TINAJA_NULL -1

// An argument is out of range, or a text is not UTF-8.
#define TINAJA_ARGUMENT -2

// No such object is stored.
#define TINAJA_NOT_FOUND -3

// No such handle was ever given out, or it is of another kind.
#define TINAJA_UNKNOWN_HANDLE -4

// The handle was closed already.
#define TINAJA_CLOSED_HANDLE -5

// The file is being written.
#define TINAJA_NOT_FOR_READING -6

// The file was opened for reading.
#define TINAJA_NOT_FOR_WRITING -7

// The offset is outside the file or object.
#define TINAJA_OUTSIDE -8

// The length is not known yet.
#define TINAJA_LENGTH_UNKNOWN -9

// Too many handles are open.
#define TINAJA_FULL -10

// What was written is not stored.
#define TINAJA_NOT_STORED -11

// The rest of the object cannot be read.
#define TINAJA_READ_FAILED -12

// The cache cannot be opened.
#define TINAJA_OPEN_FAILED -13

// The cache is closed.
#define TINAJA_CACHE_CLOSED -14

// The number of bytes handed in is not the number that was to be read.
#define TINAJA_WRONG_LENGTH -15

// The disk failed.
#define TINAJA_DISK -16

// The buffer is too small.
#define TINAJA_TOO_SMALL -17

// The library failed because of a bug in it.
#define TINAJA_PANIC -18

// The object is not there, or no longer there; or what was read is not what was written.
#define TINAJA_MISSING 0

// `bytes` bytes are to be read at `offset` of `descriptor`, and handed to `tinaja_verify` with `handle`, a ticket.
#define TINAJA_READ 1

// The object was found: `handle` names it, and it has `bytes` bytes.
#define TINAJA_OBJECT 2

// Bytes of the object: `handle` names them; there are `bytes` of them, from `offset` in the object on.
#define TINAJA_PART 3

// Seek from the beginning.
#define TINAJA_SEEK_SET 0

// Seek from the current position.
#define TINAJA_SEEK_CUR 1

// Seek from the end.
#define TINAJA_SEEK_END 2

// A length that is not known when an object is created.
#define TINAJA_ANY_LENGTH -1

// A setting left as the cache was created, or at its default.
#define TINAJA_UNSET 0

// A setting that is off.
#define TINAJA_OFF 1

// A setting that is on.
#define TINAJA_ON 2

// How to open a cache. Zeros and nulls mean the defaults, except for `struct_bytes`. Setting an option that the engine
// does not have is an error.
//
// The struct only grows at its end. `struct_bytes` tells the library how large the struct was in the program's header: a
// newer library takes the missing options for zero, and an older one refuses options it does not know unless they are zero.
struct tinaja_options {
  // `sizeof(struct tinaja_options)`.
  uint64_t struct_bytes;
  // The engine, as in "hashcache-log"; null: what the cache was made with, or hashcache-log, if `engine_by_memory` says no other.
  const char *engine;
  // Bytes of disk in each directory; 0: what the cache has, or 1 GiB. An existing cache of another size is refused.
  uint64_t disk_bytes;
  // Bytes of memory for hot objects, and with generational for the index too; what has no room of that lies on the disk. 0: no hot
  // objects, and all of an index in memory.
  uint64_t memory_bytes;
  // The average object size in bytes, for which a new cache is planned; 0: 8 KiB.
  uint64_t mean_object_bytes;
  // Directories on further disks, to spread objects over: always the same ones, in the same order. Null if there are none.
  const char *const *more_dirs;
  // How many of them; at most 63.
  uint64_t more_dirs_count;
  // Bytes per bin of a new Disk Table, a power of two from 4 to 64 KiB; 0: chosen from the average object size.
  uint64_t bin_bytes;
  // Bins per set of a new Disk Table, 2, 4 or 8; 0: 8.
  uint32_t ways;
  // Bits of each object's hash that the index of a new cache keeps in memory, 8 to 16; 0: 8.
  uint32_t hash_bits;
  // Whether a new cache writes and reads related objects together, see the group of `tinaja_create`: `TINAJA_ON`,
  // `TINAJA_OFF`, or `TINAJA_UNSET`, which is off in a new one. An existing cache that was created otherwise is refused.
  uint32_t prefetch;
  // How many of a set's 8 positions hashcache-loglru keeps in memory, 1 to 8; 0: 4.
  uint32_t positions_in_memory;
  // Percentage of sets that hashcache-setmemlru indexes in memory, 1 to 100; 0: 40.
  uint32_t sets_in_memory_percent;
  // Percentage of the stored bytes that segmented may write again to keep popular objects, up to 50.
  uint32_t keep_percent;
  // A directory on a separate disk for the positions that hashcache-loglru does not keep in memory. Null: they are stored
  // beside the objects. A cache that was created with one cannot be opened without one, unless all positions are in memory.
  const char *positions_dir;
  // `TINAJA_ON`: `memory_bytes` and `disk_bytes` choose the engine of a new cache, if `engine` is null: the one that finds the most, which
  // is generational but on disks below 12 MiB and without any memory. `TINAJA_UNSET` or `TINAJA_OFF`: they do not.
  uint32_t engine_by_memory;
  // What generational finds as much of as possible: 0: objects, 1: bytes, 2: balanced between both. It may be changed at any opening.
  uint32_t value;
};

// What to do next.
struct tinaja_step {
  // `TINAJA_MISSING`, `TINAJA_READ`, `TINAJA_OBJECT` or `TINAJA_PART`.
  int32_t kind;
  // What to read: the program's to read from and never to close, until its ticket is verified or dropped. Else -1.
  int32_t descriptor;
  // A ticket, an object or a part; 0 if there is none. To be dropped, or verified.
  int64_t handle;
  // Where to read, or where in the object the part begins.
  uint64_t offset;
  // How many bytes to read, or there are.
  uint64_t bytes;
  // What the memory to read into must be aligned to; 1 if any will do. The descriptor may be one of O_DIRECT.
  uint64_t align;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Open the cache in a directory, or make one there. `options` may be null. Returns its handle, or a code.
//
// # Safety
// `dir` is null or a text that ends in a zero; `options` is null or as many bytes may be read there as it says, and so may the
// texts in it, of `more_dirs` as many as `more_dirs_count` says.
int64_t tinaja_cache_open(const char *dir,
                          const struct tinaja_options *options);

// Write everything to disk and close a cache. The handle is closed even if that fails. The cache's files and tickets are
// closed with it, and later calls on them fail. Returns 0 or a code.
int32_t tinaja_cache_close(int64_t cache);

// Make everything stored so far survive a loss of power. Returns 0 or a code.
int32_t tinaja_flush(int64_t cache);

// Remove an object. Returns 0 if it was there, or may have been; `TINAJA_NOT_FOUND` if it was not; or a code.
//
// # Safety
// `key` is null, or `key_bytes` bytes may be read there.
int32_t tinaja_remove(int64_t cache, const uint8_t *key, uintptr_t key_bytes);

// What a code means, in a few words, also for a number that is no code. Never null; valid forever.
const char *tinaja_strerror(int32_t code);

// What went wrong in this thread's last failed call, and what to do; empty if none has failed. Never null; valid until this
// thread's next failed call, or its end.
const char *tinaja_last_error(void);

// Look for an object. Returns 0 and what to do next in `step`, or a code.
//
// # Safety
// `key` is null, or `key_bytes` bytes may be read there; `step` is null or may be written.
int32_t tinaja_locate(int64_t cache, const uint8_t *key, uintptr_t key_bytes, struct tinaja_step *step);

// Hand in what was read for a ticket: all of the bytes that were to be read, and no others. The ticket is used up.
// Returns 0 and what to do next in `step`, or a code. Bytes that were damaged, or overwritten since, are
// `TINAJA_MISSING`, unless a newer object is there: then `step` says what to read instead.
//
// # Safety
// `bytes` is null, or `count` bytes may be read there; `step` is null or may be written.
int32_t tinaja_verify(int64_t ticket,
                      const uint8_t *bytes,
                      uintptr_t count,
                      struct tinaja_step *step);

// Ask for the bytes of a found object from `at` on: a contiguous run of up to about 1 MiB. Returns 0 and what to do next
// in `step`, or a code.
//
// # Safety
// `step` is null or may be written.
int32_t tinaja_part(int64_t object,
                    uint64_t at,
                    struct tinaja_step *step);

// Copy the head of a found object to `into`. Returns its length, or a code: `TINAJA_TOO_SMALL` if there is not room for
// all of it.
//
// # Safety
// `into` is null, or `bytes` bytes may be written there.
int64_t tinaja_object_head(int64_t object,
                           uint8_t *into,
                           uintptr_t bytes);

// Copy up to `bytes` bytes of a part to `into`, from the part's byte `at` on. Returns how many, 0 at its end, or a code.
//
// # Safety
// `into` is null, or `bytes` bytes may be written there.
int64_t tinaja_copy(int64_t part,
                    uint64_t at,
                    uint8_t *into,
                    uintptr_t bytes);

// Let go of a ticket, an object or a part. Returns 0 or a code.
int32_t tinaja_drop(int64_t handle);

// Open an object for reading. Returns the file's handle, or a code: `TINAJA_NOT_FOUND` if it is not there.
//
// # Safety
// `key` is null, or `key_bytes` bytes may be read there.
int64_t tinaja_open(int64_t cache, const uint8_t *key, uintptr_t key_bytes);

// Open a new object for writing. It replaces the stored one. `head` is stored with it unchanged. `length` is the number of
// bytes to come, or `TINAJA_ANY_LENGTH`; an object of any other length is not stored. `group` is a number that the program
// gives to objects that are likely to be read together: a cache that prefetches writes those that arrive at about the same
// time one after another, and reads them with one request. 0: no group. Returns the file's handle, or a code.
//
// # Safety
// `key` is null, or `key_bytes` bytes may be read there; and so for `head`.
int64_t tinaja_create(int64_t cache,
                      const uint8_t *key,
                      uintptr_t key_bytes,
                      const uint8_t *head,
                      uintptr_t head_bytes,
                      int64_t length,
                      uint64_t group);

// Read up to `bytes` bytes into `into`. Returns how many were read, 0 at the end, or a code.
//
// # Safety
// `into` is null, or `bytes` bytes may be written there.
int64_t tinaja_read(int64_t file, uint8_t *into, uintptr_t bytes);

// Write all of `bytes` bytes at `from`. Returns how many, or a code. If the bytes cannot be stored, `tinaja_close` reports it.
//
// # Safety
// `from` is null, or `bytes` bytes may be read there.
int64_t tinaja_write(int64_t file,
                     const uint8_t *from,
                     uintptr_t bytes);

// Move the position from which bytes are read. `whence` is `TINAJA_SEEK_SET`, `_CUR` or `_END`. Returns the new position, or
// a code; a position before the beginning or beyond the end is an error.
int64_t tinaja_seek(int64_t file,
                    int64_t offset,
                    int32_t whence);

// The file's length in bytes, so far of one that is being written; or a code.
int64_t tinaja_length(int64_t file);

// Copy the object's head to `into`. Returns its length, or a code: `TINAJA_TOO_SMALL` if there is not room for all of it.
//
// # Safety
// `into` is null, or `bytes` bytes may be written there.
int64_t tinaja_head(int64_t file,
                    uint8_t *into,
                    uintptr_t bytes);

// Close a file. What was written becomes the object. Returns the bytes stored, head included, 0 for a file that was
// read; or a code. The file is closed even if this fails.
int64_t tinaja_close(int64_t file);

// Close a file and forget what was written to it. Returns 0 or a code.
int32_t tinaja_discard(int64_t file);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TINAJA_H */
