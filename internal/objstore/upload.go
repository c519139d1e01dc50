package objstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/minio/crc64nvme"
)

// ErrForeign means that another object has the key of a file. It is left as it is.
var ErrForeign = errors.New("objstore: another object has this name")

// Upload is the durable state of an upload under way. The zero value is that of a file that waits.
type Upload struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	ID     string `json:"id"`
	// Failed counts the attempts of this upload that failed. From attemptsPerUpload on, another upload is begun.
	Failed int `json:"failed,omitempty"`
}

// Uploader puts files into a bucket.
type Uploader struct {
	Bucket    Bucket
	PartBytes int64 // least size of parts; 0: 16 MiB
	InFlight  int   // parts at once; 0: 2
	Replace   bool  // another object of that key: overwrite it, for a repair
}

// attemptsPerUpload bounds the attempts with one upload: a store may have lost something of it, and would
// refuse to complete it whenever it is asked. With the caller's waits of 1, 2, 4 and 8 s, a store that is
// away for a short time costs no part.
const attemptsPerUpload = 5

// Limits of calls. A part also gets the time that it takes at 32 KiB/s.
const (
	callTime     = time.Minute
	completeTime = 10 * time.Minute
	slowest      = 32 << 10 // bytes per second
)

// Sum returns the checksums of a file.
func (u *Uploader) Sum(ctx context.Context, file io.ReaderAt, size int64) (*Sums, error) {
	s := &Sums{Size: size, PartBytes: partBytes(size, u.PartBytes)}
	whole, sha, buf := uint64(0), sha256.New(), make([]byte, 256<<10)
	for off := int64(0); off < size || off == 0; off += s.PartBytes {
		part := uint64(0)
		r := io.NewSectionReader(file, off, min(s.PartBytes, size-off))
		for {
			n, err := r.Read(buf)
			part, whole = crc64nvme.Update(part, buf[:n]), crc64nvme.Update(whole, buf[:n])
			sha.Write(buf[:n]) // never fails
			if err == io.EOF {
				break
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("objstore: sum of a file: %w", err)
			}
		}
		s.Parts = append(s.Parts, crcText(part))
	}
	s.CRC, s.SHA256 = crcText(whole), hex.EncodeToString(sha.Sum(nil))
	return s, nil
}

// Put brings a file to the state there. sums are those of Sum, was is the last Upload that was noted for the
// file, or the zero value, and note receives it whenever it changes. After an error other than ErrForeign the
// caller may try again.
func (u *Uploader) Put(ctx context.Context, key string, file io.ReaderAt, sums *Sums, was Upload,
	note func(Upload)) error {
	if there, err := u.there(ctx, key, sums); there || err != nil && !(u.Replace && errors.Is(err, ErrForeign)) {
		return err
	}
	p := put{u: u, key: key, file: file, sums: sums}
	same := was.Key == key && was.SHA256 == sums.SHA256 && was.Size == sums.Size && was.ID != ""
	fail := func(what string, err error) error {
		if now := p.upload; now.ID != "" && ctx.Err() == nil && !errors.Is(err, ErrNoUpload) {
			now.Failed++
			note(now)
		}
		return fmt.Errorf("objstore: %s %s: %w", what, key, err)
	}
	if same {
		p.upload = was
	}
	if same && was.Failed < attemptsPerUpload {
		if err := p.resume(ctx, was.ID); err != nil {
			return fail("ask for the parts of", err)
		}
	}
	if p.id == "" {
		if err := p.begin(ctx, note); err != nil {
			return fail("begin the upload of", err)
		}
	}
	if err := p.send(ctx); err != nil {
		return fail("upload", err)
	}
	done, cancel := context.WithTimeout(ctx, completeTime)
	err := u.Bucket.Complete(done, key, p.id, p.parts, sums, u.Replace)
	cancel()
	there, lookErr := u.there(ctx, key, sums)
	switch {
	case there:
		return nil
	case errors.Is(lookErr, ErrForeign):
		return lookErr
	case errors.Is(err, ErrNoUpload):
		note(Upload{})
	}
	if err = errors.Join(err, lookErr); err == nil {
		err = errors.New("the store reports a complete upload but has no such object")
	}
	return fail("complete", err)
}

// there reports whether the store has the file. Another object of its key is ErrForeign.
func (u *Uploader) there(ctx context.Context, key string, sums *Sums) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o, err := u.Bucket.Head(ctx, key)
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("objstore: look at %s: %w", key, err)
	}
	if err := sums.Same(o); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrForeign, key, err)
	}
	return true, nil
}

// Same returns how an object differs from the file; nil if it does not.
func (s *Sums) Same(o *Object) error {
	switch {
	case o.Size != s.Size:
		return fmt.Errorf("it has %d bytes, want %d", o.Size, s.Size)
	case o.CRC != "" && o.CRC != s.CRC:
		return fmt.Errorf("it has CRC64NVME %s, want %s", o.CRC, s.CRC)
	case o.SHA256 != "" && o.SHA256 != s.SHA256:
		return fmt.Errorf("it has SHA-256 %.80q, want %s", o.SHA256, s.SHA256)
	case o.CRC == "" && o.SHA256 == "":
		return errors.New("it has no checksum, so it may be another file")
	}
	return nil
}

// put is one attempt.
type put struct {
	u      *Uploader
	key    string
	id     string
	upload Upload // as noted last; without ID: none
	file   io.ReaderAt
	sums   *Sums
	parts  []Part // by number; without ETag: missing
}

// newParts returns the parts of the file, none of which the store has.
func (p *put) newParts() {
	p.parts = make([]Part, len(p.sums.Parts))
	for i, crc := range p.sums.Parts {
		off := int64(i) * p.sums.PartBytes
		p.parts[i] = Part{Number: int32(i + 1), Size: min(p.sums.PartBytes, p.sums.Size-off), CRC: crc}
	}
}

// resume takes up an upload, unless it is no more.
func (p *put) resume(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	have, err := p.u.Bucket.Parts(ctx, p.key, id)
	if errors.Is(err, ErrNoUpload) {
		return nil
	}
	if err != nil {
		return err
	}
	p.newParts()
	p.id = id
	for _, h := range have {
		if h.Number < 1 || int(h.Number) > len(p.parts) {
			p.id = "" // of other parts; begin aborts it
			return nil
		}
		if want := &p.parts[h.Number-1]; h.Size == want.Size && h.CRC == want.CRC {
			want.ETag = h.ETag
		}
	}
	return nil
}

// begin aborts all uploads of the key and begins a new one. A stuck one that cannot be aborted stays: its
// parts cost room in the store until its rules for unfinished uploads remove them, but another upload may be
// completed.
func (p *put) begin(ctx context.Context, note func(Upload)) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	stuck := p.upload.Failed >= attemptsPerUpload
	p.upload = Upload{}
	old, err := p.u.Bucket.Uploads(ctx, p.key)
	if err != nil {
		return err
	}
	for _, id := range old {
		if err := p.u.Bucket.Abort(ctx, p.key, id); err != nil {
			if !stuck {
				return err
			}
		}
	}
	if p.id, err = p.u.Bucket.Create(ctx, p.key, p.sums); err != nil {
		return err
	}
	p.upload = Upload{Key: p.key, Size: p.sums.Size, SHA256: p.sums.SHA256, ID: p.id}
	note(p.upload)
	p.newParts()
	return nil
}

// send puts the missing parts. The first error ends it.
func (p *put) send(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *Part)
	var workers sync.WaitGroup
	for range max(1, min(p.inFlight(), len(p.parts))) {
		workers.Go(func() {
			for part := range next {
				if err := p.sendPart(ctx, part); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range p.parts {
		if p.parts[i].ETag == "" && ctx.Err() == nil {
			next <- &p.parts[i]
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

func (p *put) inFlight() int {
	if p.u.InFlight == 0 {
		return 2
	}
	return p.u.InFlight
}

func (p *put) sendPart(ctx context.Context, part *Part) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime+time.Duration(part.Size/slowest)*time.Second)
	defer cancel()
	body := io.NewSectionReader(p.file, int64(part.Number-1)*p.sums.PartBytes, part.Size)
	etag, err := p.u.Bucket.PutPart(ctx, p.key, p.id, *part, body)
	if err == nil && etag == "" {
		err = errors.New("the store's answer has no ETag")
	}
	if err != nil {
		return fmt.Errorf("part %d: %w", part.Number, err)
	}
	part.ETag = etag
	return nil
}
