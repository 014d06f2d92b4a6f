#include "common/server/command_line.h"

namespace scd {

const char kScdVersion[] = SCD_VERSION;

}  // namespace scd
