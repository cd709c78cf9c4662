# Writes OUT, a source that names what roles and compiler decide by: a digest of
# their texts. A journal that another digest began may be decided otherwise.
file(GLOB_RECURSE sources
     ${ROOT}/actors/*.?pp ${ROOT}/compiler/* ${ROOT}/messages/*.?pp)
# How a role tells of its state decides nothing.
list(FILTER sources EXCLUDE REGEX "/actors/state/")
list(SORT sources)
set(digests "")
foreach(source ${sources})
  file(SHA256 ${source} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 12 digest)
set(text "#include \"runtime/host/decisions_version.hpp\"

namespace weft {

std::string_view decisions_version() { return \"${digest}\"; }

}  // namespace weft
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
