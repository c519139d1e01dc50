#include "textflag.h"

// Constants, each byte 32 times.
#define BYTES(name, c) \
	DATA name<>+0(SB)/8, $c; DATA name<>+8(SB)/8, $c; DATA name<>+16(SB)/8, $c; DATA name<>+24(SB)/8, $c; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

BYTES(less, 0x3C3C3C3C3C3C3C3C)
BYTES(greater, 0x3E3E3E3E3E3E3E3E)
BYTES(quote, 0x2222222222222222)
BYTES(equals, 0x3D3D3D3D3D3D3D3D)
BYTES(slash, 0x2F2F2F2F2F2F2F2F)
BYTES(lower, 0x2020202020202020)
BYTES(letterA, 0x6161616161616161)
BYTES(letters, 0x1919191919191919)
BYTES(ampersand, 0x2626262626262626)
BYTES(return, 0x0D0D0D0D0D0D0D0D)
BYTES(nibble, 0x0F0F0F0F0F0F0F0F)

// EQUAL sets the bits of dst where the 64 bytes in Y0 and Y1 equal c. It clobbers tmp, Y2, Y3.
#define EQUAL(c, dst, tmp) \
	VPCMPEQB  c, Y0, Y2; \
	VPCMPEQB  c, Y1, Y3; \
	VPMOVMSKB Y2, dst; \
	VPMOVMSKB Y3, tmp; \
	SHLQ      $32, tmp; \
	ORQ       tmp, dst

// LETTERS sets the bytes of y to 0xFF where src has letters.
#define LETTERS(src, y, tmp) \
	VPOR     lower<>(SB), src, y; \
	VPSUBB   letterA<>(SB), y, y; \
	VPMINUB  letters<>(SB), y, tmp; \
	VPCMPEQB y, tmp, y

// CLASSES clears the bytes of y where the name whose first letter is at off(BX) matches no class of wideNames.
#define CLASSES(off, y, tmp) \
	VMOVDQU off(BX), tmp; \
	VPSHUFB tmp, Y11, y; \
	VPSRLW  $4, tmp, tmp; \
	VPAND   Y10, tmp, tmp; \
	VPSHUFB tmp, Y12, tmp; \
	VPAND   tmp, y, y; \
	VPSHUFB (off+1)(BX), Y13, tmp; \
	VPAND   tmp, y, y; \
	VPAND   (off+3)(BX), Y10, tmp; \
	VPSHUFB tmp, Y14, tmp; \
	VPAND   tmp, y, y; \
	VPCMPEQB Y6, y, y

// func skipWide(b []byte, i int, t *wideTables) int
//
// AX is i, SI points to the bytes, DI is the last index at which a block may begin. In these masks bit n stands
// for byte n of the block: R8 '<', R9 '>', R10 '/', later also white space and '"', R11 '"', R12 white space,
// R13 '=', BX relevant '<', R14 refutations of the plain form. R15 is the index of the next block. It is computed
// as early as possible, so the CPU can start the next block during the proofs of this one: a fifth of the speed.
TEXT ·skipWide(SB), NOSPLIT, $0-48
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), DI
	MOVQ i+24(FP), AX
	MOVQ t+32(FP), CX
	SUBQ $68, DI
	CMPQ AX, DI
	JGT  return
	VPCMPEQB X7, X7, X7
	VPXOR    Y6, Y6, Y6
	VMOVDQU  less<>(SB), Y8
	VMOVDQU  greater<>(SB), Y9
	VMOVDQU  nibble<>(SB), Y10
	VMOVDQU  0(CX), Y11
	VMOVDQU  32(CX), Y12
	VMOVDQU  64(CX), Y13
	VMOVDQU  96(CX), Y14
	VMOVDQU  128(CX), Y15

block:
	LEAQ    (SI)(AX*1), BX
	VMOVDQU (BX), Y0
	VMOVDQU 32(BX), Y1
	EQUAL(Y8, R8, CX)
	TESTQ   R8, R8
	JEQ     text
	EQUAL(Y9, R9, CX)

	// R15 = index of the next block: the last '<' if no '>' follows it.
	BSRQ    R8, R15
	MOVL    $64, CX
	CMPQ    R8, R9
	CMOVQLS CX, R15
	ADDQ    AX, R15
	EQUAL(slash<>(SB), R10, CX)
	LETTERS(Y0, Y2, Y3)
	LETTERS(Y1, Y4, Y5)
	VPMOVMSKB Y2, R11
	VPMOVMSKB Y4, CX
	SHLQ    $32, CX
	ORQ     CX, R11

	// BX = '<' & (a class | neither a letter nor '/' followed by a letter)
	CLASSES(1, Y2, Y3)
	CLASSES(33, Y4, Y5)
	VPMOVMSKB Y2, R12
	VPMOVMSKB Y4, CX
	SHLQ    $32, CX
	ORQ     CX, R12  // no class
	MOVQ    R10, CX
	SHRQ    $1, CX
	SHRQ    $1, R11
	MOVQ    R11, DX
	SHRQ    $1, DX
	ANDQ    DX, CX
	ORQ     R11, CX  // a tag
	ANDQ    R12, CX
	ANDNQ   R8, CX, BX

	// White space.
	VPSHUFB  Y0, Y15, Y2
	VPCMPEQB Y0, Y2, Y2
	VPSHUFB  Y1, Y15, Y3
	VPCMPEQB Y1, Y3, Y3
	VPMOVMSKB Y2, R12
	VPMOVMSKB Y3, CX
	SHLQ    $32, CX
	ORQ     CX, R12
	EQUAL(quote<>(SB), R11, CX)
	EQUAL(equals<>(SB), R13, CX)
	ORQ     R12, R10
	ORQ     R11, R10

	// '=' in a tag's name: from '<', carries propagate to the end of the name.
	MOVQ    R12, CX
	ORQ     R9, CX
	NOTQ    CX
	LEAQ    (CX)(R8*1), DX
	XORQ    CX, DX
	ANDQ    CX, DX
	MOVQ    DX, R14
	ANDQ    R13, R14

	// DX = in a tag; refute '<' and '>' that do not alternate.
	MOVQ    R8, CX
	ORQ     R9, CX
	VMOVQ   CX, X2
	VPCLMULQDQ $0, X7, X2, X2
	VMOVQ   X2, DX
	MOVQ    DX, R12
	XORQ    R9, R12
	ANDNQ   CX, R12, R12
	ORQ     R12, R14

	// R12 = in a value; refute '<' or '>' there.
	ANDQ    DX, R11
	VMOVQ   R11, X2
	VPCLMULQDQ $0, X7, X2, X2
	VMOVQ   X2, R12
	ANDQ    R12, CX
	ORQ     CX, R14
	ANDQ    R12, R11    // opens a value
	ANDNQ   DX, R12, DX // in a tag, not in a value
	ANDQ    DX, R13
	LEAQ    (R13)(R13*1), R12
	XORQ    R11, R12
	ORQ     R12, R14
	ADDQ    R10, R10
	ANDQ    R13, R10
	ORQ     R10, R14

	// Bytes after a last '<' without '>' are not decided here (R14), nor is its relevance (BX).
	BSRQ    R8, CX
	MOVQ    $-2, DX
	SHLXQ   CX, DX, DX
	XORL    R11, R11
	CMPQ    R8, R9
	CMOVQLS R11, DX
	ANDNQ   R14, DX, R14
	SARQ    $1, DX
	ANDNQ   BX, DX, BX
	MOVQ    BX, R10
	ORQ     R14, R10
	JNE     event
	CMPQ    AX, R15
	JEQ     done     // a tag longer than a block
	MOVQ    R15, AX
	CMPQ    AX, DI
	JLE     block

done:
	VZEROUPPER

return:
	MOVQ AX, ret+40(FP)
	RET

text:
	ADDQ $64, AX
	CMPQ AX, DI
	JLE  block
	JMP  done

event:
	BSFQ  R10, CX
	BTQ   CX, R14
	JCC   found
	MOVQ  $-1, DX
	SHLXQ CX, DX, DX
	ANDNQ R8, DX, R11 // '<' before it
	ANDNQ R9, DX, R12 // '>' before it
	CMPQ  R12, R11
	JCC   stray
	BSRQ  R11, CX     // the tag that contains it

found:
	ADDQ CX, AX
	JMP  done

	// A '>' in text: continue at the next '<'.
stray:
	ANDQ DX, R8
	MOVL $64, CX
	BSFQ R8, DX
	CMOVQNE DX, CX
	ADDQ CX, AX
	CMPQ AX, DI
	JLE  block
	JMP  done

// func quoteWide(b []byte, i int) (end int, special, high uint32)
TEXT ·quoteWide(SB), NOSPLIT, $0-48
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), DI
	MOVQ i+24(FP), AX
	XORL BX, BX
	XORL DX, DX
	SUBQ $32, DI
	CMPQ AX, DI
	JGT  out
	VMOVDQU quote<>(SB), Y4
	VMOVDQU ampersand<>(SB), Y5
	VMOVDQU return<>(SB), Y6
	VPXOR   Y7, Y7, Y7

next:
	VMOVDQU   (SI)(AX*1), Y0
	VPCMPEQB  Y4, Y0, Y1
	VPCMPEQB  Y5, Y0, Y2
	VPCMPEQB  Y6, Y0, Y3
	VPOR      Y3, Y2, Y2
	VPCMPEQB  Y7, Y0, Y3
	VPOR      Y3, Y2, Y2
	VPMOVMSKB Y1, CX
	VPMOVMSKB Y2, R8
	VPMOVMSKB Y0, R9
	TESTL     CX, CX
	JNE       found
	ORL       R8, BX
	ORL       R9, DX
	ADDQ      $32, AX
	CMPQ      AX, DI
	JLE       next
	JMP       end

found:
	BLSMSKL CX, R10
	ANDL    R10, R8
	ANDL    R10, R9
	ORL     R8, BX
	ORL     R9, DX
	BSFL    CX, CX
	ADDQ    CX, AX

end:
	VZEROUPPER

out:
	MOVQ AX, end+32(FP)
	MOVL BX, special+40(FP)
	MOVL DX, high+44(FP)
	RET
