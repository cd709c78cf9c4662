# Everything weft links, one line of reason each. All of it is in Debian 12.
find_package(Threads REQUIRED)

# SQLite: the journal is a file that any SQLite tool opens.
find_package(SQLite3 REQUIRED)

# zstd: blobs (prompts, sources, logs) are stored compressed.
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
add_library(zstd::zstd ALIAS PkgConfig::zstd)

# zlib: texts in a report, in the form that browsers inflate by themselves.
find_package(ZLIB REQUIRED)

# libseccomp: which system calls sandboxed code may make.
# Static where there is such a library: inside the sandbox only the system's own
# folders are seen, and a machine that weft is carried to may lack it.
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)
find_library(SECCOMP_STATIC NAMES libseccomp.a HINTS ${seccomp_LIBDIR})
if(SECCOMP_STATIC)
  add_library(seccomp::seccomp STATIC IMPORTED)
  set_target_properties(seccomp::seccomp PROPERTIES
    IMPORTED_LOCATION ${SECCOMP_STATIC}
    INTERFACE_INCLUDE_DIRECTORIES "${seccomp_INCLUDE_DIRS}")
else()
  add_library(seccomp::seccomp ALIAS PkgConfig::seccomp)
endif()

# OpenSSL's libcrypto: SHA-256 for content hashes and the journal's chain.
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# nlohmann_json: the formats that people and Python read.
find_package(nlohmann_json REQUIRED)

# libcurl: calls to language models, with its own thread-free event loop,
# connection reuse, HTTP/2 and proxies.
find_package(CURL REQUIRED)

# cpp-httplib: the pages of `weft ui`. Debian's is a library with a header, others
# install the header alone.
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(httplib::httplib ALIAS PkgConfig::httplib)

# toml++: files of settings. Header only; not all packages ship its CMake file.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
target_include_directories(tomlplusplus::tomlplusplus SYSTEM INTERFACE
                           ${TOMLPLUSPLUS_INCLUDE_DIR})

# CLI11: the command line's flags, help and usage errors.
find_package(CLI11 REQUIRED)

# doctest: the unit tests. A wheel is built without it.
find_package(doctest QUIET)
if(NOT doctest_FOUND)
  message(STATUS "No doctest: the unit tests cannot be built")
  add_library(doctest::doctest INTERFACE IMPORTED)
endif()

# msgpack-cxx: message bodies. Its CMake package drags in Boost and changed its
# name between versions, so the header is found directly.
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)
add_library(msgpack::msgpack INTERFACE IMPORTED)
target_include_directories(msgpack::msgpack INTERFACE ${MSGPACK_INCLUDE_DIR})
target_compile_definitions(msgpack::msgpack INTERFACE MSGPACK_NO_BOOST)

# CAF: the actor system that hosts the roles. 1.x ships a CMake package,
# Debian's 0.17.6 only headers and a library.
find_package(CAF CONFIG QUIET COMPONENTS core)
if(NOT TARGET CAF::core)
  find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
  find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
endif()

# ZeroMQ: head and nodes talk through it. cppzmq is its C++ side, headers only;
# both have changed their CMake packages between versions.
pkg_check_modules(libzmq REQUIRED IMPORTED_TARGET libzmq>=4.3)
find_path(CPPZMQ_INCLUDE_DIR zmq.hpp REQUIRED)
add_library(cppzmq::cppzmq INTERFACE IMPORTED)
target_include_directories(cppzmq::cppzmq INTERFACE ${CPPZMQ_INCLUDE_DIR})
target_link_libraries(cppzmq::cppzmq INTERFACE PkgConfig::libzmq)
