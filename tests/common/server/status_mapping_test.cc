#include "common/server/status_mapping.h"

#include <string>

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(StatusMappingTest, EveryCodeGoesThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "text");
    const grpc::Status mapped = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(mapped.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(mapped), status);
  }
}

TEST(StatusMappingTest, LongMessagesAreCut) {
  const grpc::Status mapped = ToGrpcStatus(absl::InternalError(std::string(100000, 'x')));
  EXPECT_LT(mapped.error_message().size(), 2100u);
  EXPECT_EQ(mapped.error_message().substr(1998), "xx...");
}

TEST(StatusMappingTest, LabelsAreCanonicalNames) {
  EXPECT_EQ(StatusCodeLabel(absl::StatusCode::kOk), "ok");
  EXPECT_EQ(StatusCodeLabel(absl::StatusCode::kDeadlineExceeded), "deadline_exceeded");
  EXPECT_EQ(StatusCodeLabel(absl::StatusCode::kUnauthenticated), "unauthenticated");
  EXPECT_EQ(StatusCodeLabel(static_cast<absl::StatusCode>(99)), "unknown");
  for (int code = 0; code <= 16; ++code) {
    std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(StatusCodeLabel(static_cast<absl::StatusCode>(code)), name);
  }
}

}  // namespace
}  // namespace scd
