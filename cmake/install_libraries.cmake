# Copies what `weft_program` and bubblewrap load, without what is glibc's: that
# belongs to the machine's kernel and its loader. Run by cmake --install.
find_program(bwrap bwrap)
if(NOT bwrap)
  message(FATAL_ERROR "no bwrap here: install bubblewrap")
endif()
set(folder ${CMAKE_INSTALL_PREFIX}/lib/weft)
set(of_glibc "^ld-linux" "^lib(c|m|dl|rt|pthread|util|resolv|anl)\\.so")

function(needs found)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${ARGN}
       RESOLVED_DEPENDENCIES_VAR resolved UNRESOLVED_DEPENDENCIES_VAR missing
       PRE_EXCLUDE_REGEXES ${of_glibc})
  if(missing)
    message(FATAL_ERROR "${ARGN} misses libraries: ${missing}")
  endif()
  set(${found} ${resolved} PARENT_SCOPE)
endfunction()

# Inside the sandbox the launcher finds the system's libraries alone.
needs(of_sandbox ${weft_sandbox})
if(of_sandbox)
  message(FATAL_ERROR "weft-sandbox needs ${of_sandbox}: install libseccomp's "
                      "static library and build again")
endif()

needs(libraries ${weft_program} ${bwrap})
foreach(library ${libraries})
  file(INSTALL ${library} DESTINATION ${folder} TYPE SHARED_LIBRARY
       FOLLOW_SYMLINK_CHAIN)
endforeach()
file(INSTALL ${bwrap} DESTINATION ${folder} TYPE PROGRAM)

# A wheel and an archive hold files, and each library once, by the name that
# programs load it by.
file(GLOB links ${folder}/*.so*)
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${folder}/${name} real)
  if(NOT real STREQUAL "${folder}/${name}")
    file(RENAME ${real} ${folder}/${name})
  endif()
endforeach()

# Their licences ask to be with them; those of what is compiled in, too.
find_program(dpkg_query dpkg-query)
if(dpkg_query)
  foreach(package libcli11-dev libmsgpack-cxx-dev nlohmann-json3-dev
          libtomlplusplus-dev cppzmq-dev libseccomp-dev)
    set(text /usr/share/doc/${package}/copyright)
    if(NOT EXISTS ${text})
      message(FATAL_ERROR "no licence of ${package}, which weft contains: ${text}")
    endif()
    file(REAL_PATH ${text} text)
    file(INSTALL ${text} RENAME ${package} TYPE FILE
         DESTINATION ${CMAKE_INSTALL_PREFIX}/share/weft/licences)
  endforeach()
  foreach(file ${libraries} ${bwrap})
    unset(package)
    file(REAL_PATH ${file} real)
    foreach(path ${file} ${real} /usr${file})
      execute_process(COMMAND ${dpkg_query} -S ${path} OUTPUT_VARIABLE told
                      ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed)
        string(REGEX REPLACE ":.*" "" package ${told})
        break()
      endif()
    endforeach()
    set(text /usr/share/doc/${package}/copyright)
    if(NOT package OR NOT EXISTS ${text})
      message(FATAL_ERROR "no licence of ${file}, which weft carries")
    endif()
    file(REAL_PATH ${text} text)
    file(INSTALL ${text} RENAME ${package} TYPE FILE
         DESTINATION ${CMAKE_INSTALL_PREFIX}/share/weft/licences)
  endforeach()
endif()
