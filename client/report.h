// How answers and statistics are written: text for people, JSON for programs.
#ifndef SCD_CLIENT_REPORT_H_
#define SCD_CLIENT_REPORT_H_

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"
#include "scd/v1/consumer.pb.h"
#include "scd/v1/producer.pb.h"

namespace scd {

// "1.25 MiB", "812 bytes".
std::string ReadableBytes(std::uint64_t bytes);
// "stop_token", "stop_text", "max_tokens".
std::string FinishReasonName(v1::FinishReason reason);

// "asked" is the mode that the request named, or empty. Several lines, each ended.
std::string DescribeReport(const v1::TransferReport& report, const std::string& asked);
// One line, ended: tokens, speed, why the answer ended.
std::string DescribeDone(const v1::GenerateDone& done);
std::string DescribeConsumer(const v1::ConsumerInfo& info);
std::string DescribeProducer(const v1::ProducerInfo& info);

nlohmann::json ReportJson(const v1::TransferReport& report);
nlohmann::json TokenJson(const v1::TokenEvent& token);
nlohmann::json ConsumerJson(const v1::ConsumerInfo& info);
nlohmann::json ProducerJson(const v1::ProducerInfo& info);
// The document with a line break; bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::json& document);

}  // namespace scd

#endif  // SCD_CLIENT_REPORT_H_
