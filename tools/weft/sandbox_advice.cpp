#include "tools/weft/sandbox_advice.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_there(const char* path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// A kernel's setting; -1: this kernel has none of that name.
long setting(const std::string& name) {
  std::ifstream file("/proc/sys/" + name);
  long value = -1;
  return file >> value ? value : -1;
}

bool is_in_apptainer() {
  return std::getenv("APPTAINER_CONTAINER") != nullptr ||
         std::getenv("SINGULARITY_CONTAINER") != nullptr ||
         is_there("/.singularity.d");
}

bool is_in_container() {
  return std::getenv("container") != nullptr || is_there("/.dockerenv") ||
         is_there("/run/.containerenv") ||
         std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
}

}  // namespace

std::vector<std::string> sandbox_advice() {
  std::vector<std::string> lines;
  if (setting("user/max_user_namespaces") == 0) {
    lines.emplace_back(
        "the kernel allows no user namespaces: as root of the machine, "
        "'sysctl user.max_user_namespaces=10000'");
  }
  if (setting("kernel/unprivileged_userns_clone") == 0) {
    lines.emplace_back(
        "ordinary users may make no user namespaces: as root of the machine, "
        "'sysctl kernel.unprivileged_userns_clone=1'");
  }
  if (setting("kernel/apparmor_restrict_unprivileged_userns") > 0) {
    lines.emplace_back(
        "AppArmor restricts user namespaces: as root of the machine, 'sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0', or an AppArmor "
        "profile for bwrap that allows 'userns'");
  }
  if (is_in_apptainer()) {
    lines.emplace_back(
        "Apptainer: start the container in a user namespace ('apptainer exec "
        "--userns', or '--fakeroot'), on a host that allows nested ones");
  } else if (is_in_container()) {
    lines.emplace_back(
        "Docker or Podman: start the container with '--security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
        "systempaths=unconfined'; or with a seccomp profile that allows clone, "
        "unshare, mount, umount2, pivot_root, sethostname and setns "
        "('--security-opt seccomp=FILE'; docs/how-to/containers.md makes one); "
        "or with '--privileged'");
    lines.emplace_back(
        "Kubernetes: 'securityContext' with 'seccompProfile: {type: "
        "Unconfined}' and 'procMount: Unmasked'");
  }
  lines.emplace_back(
      "if you trust every kernel that will run: '--sandbox none' "
      "(docs/explanation/security.md)");
  return lines;
}

}  // namespace weft
