# What is carried to another Linux, as the component "portable": the programs,
# bubblewrap, every library that these need besides glibc, and the licences.
# The wheel is made of it (pyproject.toml), and tools/bundle.
install(TARGETS weft weft-sandbox RUNTIME DESTINATION bin
        COMPONENT portable EXCLUDE_FROM_ALL)
# Libraries find their own libraries by the program's path, too, which the newer
# kind of entry does not allow.
target_link_options(weft PRIVATE -Wl,--disable-new-dtags)
install(CODE "
  set(weft_program \"$<TARGET_FILE:weft>\")
  set(weft_sandbox \"$<TARGET_FILE:weft-sandbox>\")"
  COMPONENT portable EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/install_libraries.cmake
        COMPONENT portable EXCLUDE_FROM_ALL)
