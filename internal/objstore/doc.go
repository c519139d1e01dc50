// Package objstore puts finished files into an object store that speaks S3, and reads them there. The paper has no
// counterpart: it kept its pages on local disks.
//
// # Contract
//
// A file's bytes never change, so putting it twice is the same as once. Uploader.Put ends without error only
// when the store itself says that an object of that key has the file's size and checksums. It never
// overwrites: another object of that key is ErrForeign, but for Uploader.Replace, with which a repair
// overwrites it. A key belongs to one crawl and one file, and one process at a time puts it, so a half upload
// of that key is an earlier attempt of ours.
//
// An upload has these states. The first three are those of Put; the caller makes the last one, because only
// it knows when its list of objects is durable:
//
//	waiting    no upload is known
//	uploading  an upload has an id; the store has some parts
//	there      Complete was answered or not, and HEAD agrees
//	named      the caller's durable list names the object: the local file may go
//
// Put may be killed, or lose an answer, at any call. The next Put with the last noted Upload continues: it
// asks for the parts of the upload and puts those that are missing or differ. If the id was lost (killed
// between Create and its note), all uploads of the key are aborted and a new one begins. A second Complete
// may answer that there is no such upload: HEAD decides.
//
// Checks, in the order of the bytes' way: CRC64NVME of each part, which the store verifies; CRC64NVME of the
// whole object at Complete; size, CRC64NVME and SHA-256 (as metadata) by HEAD. The sums are those of the file
// as it is read before the upload. By TLS the signature of a part leaves out its bytes, since the checksum
// covers them; over plain HTTP (loopback, or --s3-insecure) it has their SHA-256 as well. A store that
// ignores these checksums is accepted if size and metadata agree.
//
// # Arithmetic
//
// A store takes 10,000 parts of at least 5 MiB (but the last). With parts of 16 MiB, or size/9,000 if that is
// more, a file of 1 GB has 60 parts, and one of 5 TB fits. A file costs Head, Uploads, Create, parts,
// Complete, Head: 65 requests for 1 GB. It is read twice: once for the sums, once to send it; the second time
// the page cache has most of it. The sums take 1 s of CPU for 1 GB, sums and sending by TLS 2.6 s: 26 µs for
// a page of 10 KB as stored (BenchmarkSum, BenchmarkPut).
//
// Sums that are computed while the file is written would save one read, 0.11 of these 2.6 s, since SHA-256
// costs 0.68 s in either place. They would have to survive restarts, in the middle of a file, and the parts
// depend on its final size. So they are computed from the finished file, which also finds bytes that the disk
// has changed since.
//
// # Concurrency and memory
//
// An Uploader has InFlight goroutines during Put. Parts are sent from the file, so they take no memory. A
// file that is read from the store has a window of at most 8 MiB.
package objstore
