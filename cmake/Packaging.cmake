# Debian packages: scd (the components runtime and system) and scd-eval.
#
#   cmake --build build --target scd_packages     makes build/scd_VERSION-1_ARCH.deb (and scd-eval_...)
#
# Dependencies are found by dpkg-shlibdeps: build on the release that the packages are for.
if(NOT SCD_PACKAGING)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME scd)
set(CPACK_PACKAGE_VENDOR SCD)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_CONTACT "SCD maintainers <maintainers@scd.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_STRIP_FILES ON)
# Absolute places (/etc) need DESTDIR; the prefix is that of the installed system.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL runtime system)
if(SCD_EVAL_PROGRAMS)
  list(APPEND CPACK_COMPONENTS_ALL eval)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_RUNTIME_GROUP daemons)
set(CPACK_COMPONENT_SYSTEM_GROUP daemons)
set(CPACK_COMPONENT_EVAL_GROUP eval)

set(scd_debian ${PROJECT_SOURCE_DIR}/packaging/debian)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_DAEMONS_PACKAGE_NAME scd)
set(CPACK_DEBIAN_DAEMONS_DESCRIPTION "Cross-model KV transfer for LLM serving
A producer prefills prompts with a base model and streams semantic codes of its
KV cache, a consumer rebuilds a fine-tune's own KV cache from them, skips its
prefill and decodes. This package holds both daemons with their systemd units,
the program that fits the translators of a pair, and a client.")
set(CPACK_DEBIAN_DAEMONS_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_DAEMONS_PACKAGE_RECOMMENDS "ca-certificates, python3-pip")
file(WRITE ${PROJECT_BINARY_DIR}/packaging/daemons/conffiles
  "/etc/scd/calibrate.yaml\n/etc/scd/consumer.yaml\n/etc/scd/producer.yaml\n/etc/scd/quickstart_calibrate.yaml\n")
set(CPACK_DEBIAN_DAEMONS_PACKAGE_CONTROL_EXTRA
  "${PROJECT_BINARY_DIR}/packaging/daemons/conffiles;${scd_debian}/postinst;${scd_debian}/prerm;${scd_debian}/postrm")

set(CPACK_DEBIAN_EVAL_PACKAGE_NAME scd-eval)
set(CPACK_DEBIAN_EVAL_DESCRIPTION "Measures ways of handing over an LLM's prompt state
scd-eval measures quality and latency of cross-model KV transfer against every
other way of moving a prompt's state, over the daemons of the package scd, and
draws a report.")
set(CPACK_DEBIAN_EVAL_PACKAGE_DEPENDS "scd (= ${PROJECT_VERSION}-1), python3, python3-matplotlib, python3-jinja2")
file(WRITE ${PROJECT_BINARY_DIR}/packaging/eval/conffiles "/etc/scd/eval.yaml\n")
set(CPACK_DEBIAN_EVAL_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/packaging/eval/conffiles")

include(CPack)

set(scd_package_inputs scd_system)
if(SCD_EVAL_PROGRAMS)
  list(APPEND scd_package_inputs scd-eval scd_eval_help)
endif()
add_custom_target(scd_packages
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackConfig.cmake -B ${PROJECT_BINARY_DIR}
  COMMENT "Debian packages" VERBATIM USES_TERMINAL)
add_dependencies(scd_packages ${scd_package_inputs})
