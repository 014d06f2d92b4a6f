// What happened to a prompt, as the last message of an answer says it.
#ifndef SCD_CONSUMER_REPORT_H_
#define SCD_CONSUMER_REPORT_H_

#include "absl/time/time.h"
#include "common/config/model_config.h"
#include "consumer/served_prompt.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// `before_submit`: from the request's arrival until the engine had it; `total`: from its arrival until now.
v1::TransferReport MakeReport(const ServingRecord& record, const ModelConfig& config,
                              absl::Duration before_submit, absl::Duration total);

}  // namespace scd

#endif  // SCD_CONSUMER_REPORT_H_
