//go:build !drumsafe

#include "textflag.h"

// func prefetchSets(sets []slotSet, keys []Key)
TEXT ·prefetchSets(SB), NOSPLIT, $0-48
	MOVQ sets_base+0(FP), DI
	MOVQ sets_len+8(FP), BX
	MOVQ keys_base+24(FP), SI
	MOVQ keys_len+32(FP), CX
	TESTQ CX, CX
	JEQ  done

next:
	MOVQ (SI), AX
	MULQ BX // DX is the set's number, the high half of key times sets
	SHLQ $6, DX
	PREFETCHT0 (DI)(DX*1)
	ADDQ $8, SI
	DECQ CX
	JNE  next

done:
	RET
