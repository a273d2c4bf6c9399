#include "train/checkpoint/module_digest.h"

#include <sodium.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "accrue/core/error.h"
#include "core/atomic_file.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// XXH3, which checkpoints have, is no protection against somebody who forges.
std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  crypto_hash_sha256_state state{};
  crypto_hash_sha256_init(&state);
  std::vector<char> piece(std::size_t{1} << 20U);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0)
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(piece.data()),
                              static_cast<unsigned long long>(in.gcount()));
  if (!in.eof())
    throw usage_error("read " + file.string(), "a TorchScript file", "none that can be read",
                      "the path of a file that torch.jit.save wrote");
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::array<char, 2 * digest.size() + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), digest.data(), digest.size());
  return std::string("sha256:") + digits.data();
}

}  // namespace

fs::path module_of(const Config& config) {
  return config.model.kind == ModelKind::torchscript ? fs::path(config.model.from) : fs::path();
}

std::string digest_of_module(const Config& config) {
  const fs::path file = module_of(config);
  return file.empty() ? "" : sha256_of(file);
}

void expect_recorded_module(const Config& config, const std::string& recorded,
                            const std::string& operation) {
  const fs::path file = module_of(config);
  if (file.empty()) return;
  const std::string present = digest_of_module(config);
  if (present == recorded) return;
  throw usage_error(operation,
                    recorded.empty()
                        ? "a run.json with the digest of its TorchScript module, whose code runs "
                          "when it is loaded"
                        : "the TorchScript module that the run was trained with (" + recorded +
                              "), as its code runs when it is loaded",
                    recorded.empty() ? "none, as in folders of earlier versions"
                                     : file.string() + " (" + present + ")",
                    "--trust-module if you trust " + file.string() + " as a program of yours");
}

std::string recorded_module(const RunDirectory& run) {
  std::error_code unreadable;
  if (!fs::exists(run.run_file(), unreadable)) return {};
  const nlohmann::json parsed = nlohmann::json::parse(read_file(run.run_file()), nullptr, false);
  if (!parsed.is_object()) return {};
  const nlohmann::json module = parsed.value("module", nlohmann::json());
  return module.is_string() ? module.get<std::string>() : "";
}

}  // namespace accrue::train
