# Helpers that give every folder's target the same flags and include root.

add_library(scd_flags INTERFACE)
target_include_directories(scd_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(scd_flags INTERFACE -Wall -Wextra -Werror)
if(SCD_SANITIZE)
  add_compile_options(-fsanitize=${SCD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SCD_SANITIZE})
  # The sanitizers call dlopen from their own library, which a RUNPATH of the program does not reach; an RPATH does.
  add_link_options(-Wl,--disable-new-dtags)
endif()

# scd_library(NAME SOURCES a.cc ... [DEPS target ...])
function(scd_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE scd_flags)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

# scd_binary(NAME SOURCES main.cc ... [DEPS target ...])
function(scd_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} scd_flags)
endfunction()

# scd_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS label ...] [TIMEOUT seconds] [WHOLE])
# One test binary for a folder. Each gtest case becomes a ctest case, or with WHOLE the binary is one case
# (for suites that load something expensive once). A skipped case is reported as skipped by ctest.
function(scd_test name)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} scd_test_support GTest::gmock GTest::gtest_main scd_flags)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
      SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  else()
    include(GoogleTest)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  endif()
endfunction()
