//go:build !drumsafe

#include "textflag.h"

// func prefetchBuckets(buckets []cuckooBucket, keys []Key)
TEXT ·prefetchBuckets(SB), NOSPLIT, $0-48
	MOVQ buckets_base+0(FP), DI
	MOVQ buckets_len+8(FP), BX
	MOVQ keys_base+24(FP), SI
	MOVQ keys_len+32(FP), CX
	TESTQ CX, CX
	JEQ  done

next:
	MOVQ (SI), AX
	MOVQ AX, R8
	MULQ BX // DX is the number of the first bucket, the high half of key times buckets
	ANDQ $31, R8
	ORQ  $1, R8
	XORQ DX, R8 // R8 is that of the second
	SHLQ $5, DX
	SHLQ $5, R8
	PREFETCHT0 (DI)(DX*1)
	PREFETCHT0 (DI)(R8*1)
	ADDQ $8, SI
	DECQ CX
	JNE  next

done:
	RET
