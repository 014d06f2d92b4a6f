# Manual pages and completions of bash, zsh and fish, made at build time from what the programs say to --help
# (tools/help_files; packaging/man holds the sections that --help does not have).
set(SCD_HELP_DIR ${PROJECT_BINARY_DIR}/help)
set(scd_help_tool ${PROJECT_SOURCE_DIR}/tools/help_files)
# Debian's zsh reads this folder; others may want share/zsh/site-functions.
set(SCD_INSTALL_ZSHDIR ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions CACHE STRING "Where zsh looks for completions")

# scd_help_files(COMPONENT PROGRAM ...): a target scd_COMPONENT_help, part of a whole build, and its installation.
function(scd_help_files component)
  set(all)
  foreach(program ${ARGN})
    set(files ${SCD_HELP_DIR}/man/${program}.1 ${SCD_HELP_DIR}/man/${program}.1.gz ${SCD_HELP_DIR}/bash/${program}
      ${SCD_HELP_DIR}/zsh/_${program} ${SCD_HELP_DIR}/fish/${program}.fish)
    set(sections ${PROJECT_SOURCE_DIR}/packaging/man/${program}.1.in)
    add_custom_command(OUTPUT ${files}
      COMMAND ${Python3_EXECUTABLE} -B ${scd_help_tool}/make_help_files.py --version ${PROJECT_VERSION}
              --changelog ${PROJECT_SOURCE_DIR}/CHANGELOG.md --sections ${sections} ${SCD_HELP_DIR}
              $<TARGET_FILE:${program}>
      DEPENDS ${program} ${sections} ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${scd_help_tool}/make_help_files.py
              ${scd_help_tool}/help_text.py ${scd_help_tool}/manual_page.py ${scd_help_tool}/completions.py
      COMMENT "Manual page and completions of ${program}" VERBATIM)
    list(APPEND all ${files})
    install(FILES ${SCD_HELP_DIR}/man/${program}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
    install(FILES ${SCD_HELP_DIR}/bash/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
      COMPONENT ${component})
    install(FILES ${SCD_HELP_DIR}/zsh/_${program} DESTINATION ${SCD_INSTALL_ZSHDIR} COMPONENT ${component})
    install(FILES ${SCD_HELP_DIR}/fish/${program}.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ${component})
  endforeach()
  add_custom_target(scd_${component}_help ALL DEPENDS ${all})
endfunction()

scd_help_files(system ${SCD_RUNTIME_PROGRAMS})
add_custom_target(scd_system DEPENDS scd_runtime scd_system_help)
if(SCD_EVAL_PROGRAMS)
  scd_help_files(eval ${SCD_EVAL_PROGRAMS})
endif()
