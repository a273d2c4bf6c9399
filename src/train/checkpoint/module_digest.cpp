#include "train/checkpoint/module_digest.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/sha256.h"
#include "train/checkpoint/run_record.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// The file whose code runs when the model of `config` is made: a TorchScript module. Empty if
/// there is none.
fs::path module_of(const Config& config) {
  return config.model.kind == ModelKind::torchscript ? fs::path(config.model.from) : fs::path();
}

}  // namespace

AdmitModule admission_of_module(const Config& config, const std::string& recorded,
                                const std::string& operation) {
  return [file = module_of(config).string(), recorded, operation](const std::string& digest) {
    if (digest == recorded) return;
    const bool has_none = recorded.empty();
    throw usage_error(
        operation,
        has_none ? "a run.json with the digest of its TorchScript module, whose code runs "
                   "when it is loaded"
                 : "the TorchScript module that the run was trained with (" + recorded +
                       "), as its code runs when it is loaded",
        has_none ? "none, as in folders of earlier versions" : file + " (" + digest + ")",
        "--trust-module if you trust " + file + " as a program of yours");
  };
}

void expect_recorded_module(const Config& config, const std::string& recorded,
                            const std::string& operation) {
  if (const fs::path file = module_of(config); !file.empty())
    admission_of_module(config, recorded, operation)(sha256_of(read_file(file)));
}

std::string recorded_module(const RunDirectory& run) {
  const nlohmann::json module = recorded(run).value("module", nlohmann::json());
  return module.is_string() ? module.get<std::string>() : "";
}

}  // namespace accrue::train
