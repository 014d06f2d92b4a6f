# What `cmake --install` puts where, in three components:
#   runtime  bin/scd-*, lib/scd/libscd_sentencepiece.so: what runs, and all that an image of a daemon needs
#   system   configurations (etc/scd), systemd units, the user, manual pages, shell completions, the shipped adapter
#            (share/scd), documents
#   eval     bin/scd-eval, its report's renderer and its configuration
#
#   cmake --install build --prefix /usr [--component runtime]
#
# What names paths (configurations, units) is written when it is installed, for the prefix given then. Below /usr they are
# the system's own (/etc/scd, /var/lib/scd), below any other prefix the prefix's (etc/scd, var/lib/scd). A configuration
# that is there already stays as it is.
include(GNUInstallDirs)

set(SCD_INSTALL_LIBDIR lib/scd)  # not lib/<architecture>: a module of these programs and nobody else's
set(SCD_INSTALL_DATADIR ${CMAKE_INSTALL_DATADIR}/scd)
set(SCD_RUNTIME_PROGRAMS scd-producer scd-consumer scd-calibrate scd-client scd-health)
set(SCD_EVAL_PROGRAMS)
if(TARGET scd-eval)
  set(SCD_EVAL_PROGRAMS scd-eval)
endif()

# Programs find the module from wherever the prefix lies.
file(RELATIVE_PATH scd_bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${SCD_INSTALL_LIBDIR})
set_target_properties(${SCD_RUNTIME_PROGRAMS} ${SCD_EVAL_PROGRAMS} PROPERTIES INSTALL_RPATH "$ORIGIN/${scd_bin_to_lib}")
install(TARGETS ${SCD_RUNTIME_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS scd_sentencepiece LIBRARY DESTINATION ${SCD_INSTALL_LIBDIR} COMPONENT runtime)
add_custom_target(scd_runtime DEPENDS ${SCD_RUNTIME_PROGRAMS} scd_sentencepiece)
if(SCD_EVAL_PROGRAMS)
  install(TARGETS ${SCD_EVAL_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT eval)
endif()

# The rest comes from folders that a build of the programs alone (an image's) need not have; it runs the programs to make
# their manual pages, which those with a sanitizer are not for.
if(EXISTS ${PROJECT_SOURCE_DIR}/packaging AND NOT SCD_SANITIZE)
  set(scd_has_packaging ON)
else()
  set(scd_has_packaging OFF)
endif()
option(SCD_PACKAGING "Manual pages, completions, configurations, units and Debian packages" ${scd_has_packaging})
if(NOT SCD_PACKAGING)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

include(${CMAKE_CURRENT_LIST_DIR}/HelpFiles.cmake)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/smollm2-135m-expert DESTINATION ${SCD_INSTALL_DATADIR}/models
  COMPONENT system)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/models/get_models.sh DESTINATION ${SCD_INSTALL_DATADIR}/models COMPONENT system)
install(FILES ${PROJECT_SOURCE_DIR}/configs/seed_prompts.txt DESTINATION ${SCD_INSTALL_DATADIR} COMPONENT system)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/docs/installing.md ${PROJECT_SOURCE_DIR}/packaging/debian/copyright
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT system)
if(SCD_EVAL_PROGRAMS)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/report DESTINATION ${SCD_INSTALL_DATADIR} COMPONENT eval
    PATTERN __pycache__ EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/scd-eval
    COMPONENT eval)
endif()

set(scd_place_files ${PROJECT_BINARY_DIR}/packaging/place_files.cmake)
configure_file(${CMAKE_CURRENT_LIST_DIR}/PlaceFiles.cmake.in ${scd_place_files} @ONLY)
foreach(component system eval)
  if(component STREQUAL system OR SCD_EVAL_PROGRAMS)
    install(CODE "set(scd_component ${component})" COMPONENT ${component})
    install(SCRIPT ${scd_place_files} COMPONENT ${component})
  endif()
endforeach()
