#include "train/checkpoint/data_continuity.h"

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {

namespace {

/// Compares images' shapes: an automatic size may change if one file is left out.
void check_image(const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& now) {
  if (before == now || before.size() != 3 || now.size() != 3) return;
  const bool same_size = before[1] == now[1] && before[2] == now[2];
  throw usage_error(
      "resume", "images brought to " + image_in_words(before) + ", as before", image_in_words(now),
      same_size
          ? "the same files: their colours decide the channels"
          : "--data.image=[" + std::to_string(before[1]) + "," + std::to_string(before[2]) + "]");
}

/// The tokenizer in a fingerprint; empty if text was read as bytes.
std::string tokenizer_in(const std::string& fingerprint) {
  const std::string kind = fingerprint.substr(0, fingerprint.find(':'));
  const std::size_t at = kind.find("tokenizer ");
  return at == kind.npos ? "" : kind.substr(at);
}

/// Other ids for the same words cannot be accepted as repaired files.
void check_tokenizer(const DataIdentity& before, const DataIdentity& now) {
  const std::string known = tokenizer_in(before.fingerprint), found = tokenizer_in(now.fingerprint);
  if (known == found) return;
  throw usage_error(
      "resume", known.empty() ? "text read as bytes, as before" : known + ", as before",
      found.empty() ? "bytes" : found, "the tokenizer that the run began with (RUN/tokenizer)");
}

}  // namespace

DataChange check_continuity(const DataIdentity& before, const DataIdentity& now, bool accept) {
  check_image(before.image, now.image);
  check_tokenizer(before, now);
  if (before.fingerprint == now.fingerprint) return DataChange::none;
  const std::string expected = "the data the run was started with (" + before.fingerprint + ")";
  const std::string received = "other data (" + now.fingerprint + ")";
  if (!accept)
    throw usage_error("resume", expected, received,
                      "the same files; or --accept-data, where only what was not read yet was "
                      "changed; or a new run.out that starts from this model");
  if (before.samples == now.samples && before.held_out == now.held_out) return DataChange::accepted;
  const auto counts = [](const DataIdentity& data) {
    return std::to_string(data.samples) + " training samples and " + std::to_string(data.held_out) +
           " held out";
  };
  throw usage_error("resume with --accept-data",
                    before.samples == 0 ? "a checkpoint that states how many samples its data had"
                                        : counts(before) + ", as before",
                    counts(now) + " in " + received,
                    "the same files, or a new run.out that starts from this model");
}

}  // namespace accrue::train
