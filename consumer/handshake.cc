#include "consumer/handshake.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/wire/frame_codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::string HexOf(const std::string& bytes) {
  const absl::StatusOr<Digest> digest = Digest::FromBytes(bytes);
  return digest.ok() ? digest->ToHex() : absl::StrCat("(", bytes.size(), " bytes, which is no digest)");
}

absl::Status CheckDigest(std::string_view what, const Digest& expected, const std::string& got) {
  if (got == expected.bytes()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the producer's ", std::string(what), " is ", HexOf(got),
                                                    ", the bundle was fitted for ", expected.ToHex()));
}

absl::Status CheckSize(std::string_view field, std::int64_t expected, std::int64_t got) {
  if (got == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the producer's model.", std::string(field), " is ", got, ", expected ", expected));
}

}  // namespace

PeerIdentity ExpectedProducer(const BundleManifest& manifest, const Digest& bundle) {
  PeerIdentity identity;
  identity.model = manifest.producer.digest;
  identity.tokenizer = manifest.producer.tokenizer_digest;
  identity.bundle = bundle;
  identity.architecture = manifest.architecture;
  identity.num_layers = manifest.num_layers;
  identity.hidden_size = manifest.hidden_size;
  identity.num_kv_heads = manifest.num_kv_heads;
  identity.head_dim = manifest.head_dim;
  return identity;
}

absl::Status CheckProducerInfo(const PeerIdentity& expected, const v1::ProducerInfo& info) {
  const v1::ModelInfo& model = info.model();
  if (model.architecture() != expected.architecture) {
    return absl::FailedPreconditionError(absl::StrCat("the producer's model.architecture is '",
                                                      model.architecture(), "', expected '",
                                                      expected.architecture, "'"));
  }
  SCD_RETURN_IF_ERROR(CheckSize("num_layers", expected.num_layers, model.num_layers()));
  SCD_RETURN_IF_ERROR(CheckSize("hidden_size", expected.hidden_size, model.hidden_size()));
  SCD_RETURN_IF_ERROR(CheckSize("num_kv_heads", expected.num_kv_heads, model.num_kv_heads()));
  SCD_RETURN_IF_ERROR(CheckSize("head_dim", expected.head_dim, model.head_dim()));
  SCD_RETURN_IF_ERROR(CheckDigest("model digest", expected.model, model.digest()));
  SCD_RETURN_IF_ERROR(CheckDigest("tokenizer digest", expected.tokenizer, model.tokenizer_digest()));
  for (const v1::BundleInfo& bundle : info.bundles()) {
    if (bundle.digest() == expected.bundle.bytes()) return absl::OkStatus();
  }
  std::string served;
  for (const v1::BundleInfo& bundle : info.bundles()) absl::StrAppend(&served, " ", HexOf(bundle.digest()));
  return absl::FailedPreconditionError(absl::StrCat("the producer does not serve bundle ",
                                                    expected.bundle.ToHex(), "; it serves",
                                                    served.empty() ? " none" : served));
}

absl::StatusOr<CodeHeader> CheckHeader(const ExpectedHeader& expected, const v1::PrefillHeader& header) {
  SCD_RETURN_IF_ERROR(CheckDigest("model digest in the header", expected.model, header.model_digest()));
  if (header.bundle_digest() != expected.bundle.bytes()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the header names bundle ", HexOf(header.bundle_digest()), ", asked for ", expected.bundle.ToHex()));
  }
  SCD_ASSIGN_OR_RETURN(const LayerPlan plan, PlanFromProto(header.plan()));
  if (!plan.SendsAs(expected.plan)) {
    return absl::InvalidArgumentError("the header's plan is not the one that was asked for");
  }
  if (header.first_token() != expected.first_token) {
    return absl::InvalidArgumentError(absl::StrCat("the header's first_token is ", header.first_token(),
                                                   ", asked for ", expected.first_token));
  }
  CodeHeader result;
  result.end_token = header.end_token();
  result.stored_tokens = header.num_stored_tokens();
  if (result.end_token > expected.end_token || result.end_token <= expected.first_token ||
      result.end_token < expected.end_token - expected.max_uncoded_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("the header's end_token is ", result.end_token,
                                                   ", asked for ", expected.end_token, " with at most ",
                                                   expected.max_uncoded_tokens, " tokens left out"));
  }
  if (result.stored_tokens > result.end_token - expected.first_token) {
    return absl::InvalidArgumentError(absl::StrCat("the header's num_stored_tokens is ", result.stored_tokens,
                                                   " of ", result.end_token - expected.first_token,
                                                   " tokens"));
  }
  return result;
}

}  // namespace scd
