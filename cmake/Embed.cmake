# Texts of another language that a component prints or runs are files of that
# language; here they become constants. compiler/cuda/prelude/windows.cuh is
# weft::embedded::compiler_cuda_prelude_windows, a char array, of
# "embedded/compiler/cuda/prelude/windows.cuh".
#
#   weft_embed(TARGET FILE...)         at configure time
#   cmake -DFROM= -DTO= -DNAME= -P     at build time: writes one header
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${FROM} text)
  # A literal may hold 64 KiB in C++; ours are far shorter.
  file(WRITE ${TO} "#pragma once
namespace weft::embedded {
inline constexpr char ${NAME}[] = R\"__weft__(${text})__weft__\";
}  // namespace weft::embedded
")
  return()
endif()

function(weft_embed target)
  foreach(file ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${file})
    string(REGEX REPLACE "\\.[^/]*$" "" name ${path})
    string(MAKE_C_IDENTIFIER ${name} name)
    set(header ${CMAKE_BINARY_DIR}/embedded/${path})
    add_custom_command(
      OUTPUT ${header}
      COMMAND ${CMAKE_COMMAND} -DFROM=${file} -DTO=${header} -DNAME=${name}
              -P ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake
      DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake
      VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  target_sources(${target} PRIVATE ${headers})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR})
endfunction()
