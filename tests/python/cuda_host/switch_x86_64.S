// void host_switch(void** from, void* to): the registers that a call keeps go
// onto this stack, whose top goes to *from; those of the other come from `to`.
.text
.globl host_switch
.hidden host_switch
.type host_switch, @function
host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_switch, .-host_switch
.section .note.GNU-stack, "", @progbits
