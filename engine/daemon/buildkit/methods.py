"""The methods of the services that BuildKit's clients and servers call: their paths, and the tables of their messages.

Pure data. What is not here is not known to this engine.
"""

from engine.daemon.buildkit.messages import content, control, fsutil, gateway, policysession, session

CONTROL = "/moby.buildkit.v1.Control/"
GATEWAY = "/moby.buildkit.v1.frontend.LLBBridge/"
CONTENT = "/containerd.services.content.v1.Content/"
"""What the daemon serves."""
FILES, SENDING = "/moby.filesync.v1.FileSync/", "/moby.filesync.v1.FileSend/"
AUTH = "/moby.filesync.v1.Auth/"
UPLOAD = "/moby.upload.v1.Upload/"
SECRETS, SSH = "/moby.buildkit.secrets.v1.Secrets/", "/moby.sshforward.v1.SSH/"
POLICY = "/moby.buildkit.v1.sourcepolicy.policysession.PolicyVerifier/CheckPolicy"
HEALTH = "/grpc.health.v1.Health/Check"
"""What a client serves in its session."""

TABLES: dict[str, tuple[type, type]] = {
    CONTROL + "DiskUsage": (control.DiskUsageRequest, control.DiskUsageResponse),
    CONTROL + "Prune": (control.PruneRequest, control.UsageRecord),
    CONTROL + "Solve": (control.SolveRequest, control.SolveResponse),
    CONTROL + "Status": (control.StatusRequest, control.StatusResponse),
    CONTROL + "Session": (control.BytesMessage, control.BytesMessage),
    CONTROL + "ListWorkers": (control.ListWorkersRequest, control.ListWorkersResponse),
    CONTROL + "Info": (control.InfoRequest, control.InfoResponse),
    CONTROL + "ListenBuildHistory": (control.BuildHistoryRequest, control.BuildHistoryEvent),
    CONTROL + "UpdateBuildHistory": (control.UpdateBuildHistoryRequest, control.UpdateBuildHistoryResponse),
    GATEWAY + "ResolveImageConfig": (gateway.ResolveImageConfigRequest, gateway.ResolveImageConfigResponse),
    GATEWAY + "ResolveSourceMeta": (gateway.ResolveSourceMetaRequest, gateway.ResolveSourceMetaResponse),
    GATEWAY + "Solve": (gateway.SolveRequest, gateway.SolveResponse),
    GATEWAY + "ReadFile": (gateway.ReadFileRequest, gateway.ReadFileResponse),
    GATEWAY + "ReadDir": (gateway.ReadDirRequest, gateway.ReadDirResponse),
    GATEWAY + "StatFile": (gateway.StatFileRequest, gateway.StatFileResponse),
    GATEWAY + "Evaluate": (gateway.EvaluateRequest, gateway.EvaluateResponse),
    GATEWAY + "Ping": (gateway.PingRequest, gateway.PongResponse),
    GATEWAY + "Return": (gateway.ReturnRequest, gateway.ReturnResponse),
    GATEWAY + "Inputs": (gateway.InputsRequest, gateway.InputsResponse),
    GATEWAY + "NewContainer": (gateway.NewContainerRequest, gateway.NewContainerResponse),
    GATEWAY + "ReleaseContainer": (gateway.ReleaseContainerRequest, gateway.ReleaseContainerResponse),
    GATEWAY + "ExecProcess": (gateway.ExecMessage, gateway.ExecMessage),
    GATEWAY + "ReadFileContainer": (gateway.ReadFileRequest, gateway.ReadFileResponse),
    GATEWAY + "ReadDirContainer": (gateway.ReadDirRequest, gateway.ReadDirResponse),
    GATEWAY + "StatFileContainer": (gateway.StatFileRequest, gateway.StatFileResponse),
    GATEWAY + "Warn": (gateway.WarnRequest, gateway.WarnResponse),
    CONTENT + "Info": (content.InfoRequest, content.InfoResponse),
    CONTENT + "Read": (content.ReadContentRequest, content.ReadContentResponse),
    FILES + "DiffCopy": (fsutil.Packet, fsutil.Packet),
    FILES + "TarStream": (fsutil.Packet, fsutil.Packet),
    AUTH + "Credentials": (session.CredentialsRequest, session.CredentialsResponse),
    AUTH + "FetchToken": (session.FetchTokenRequest, session.FetchTokenResponse),
    UPLOAD + "Pull": (session.BytesMessage, session.BytesMessage),
    SECRETS + "GetSecret": (session.GetSecretRequest, session.GetSecretResponse),
    SSH + "CheckAgent": (session.CheckAgentRequest, session.CheckAgentResponse),
    SSH + "ForwardAgent": (session.BytesMessage, session.BytesMessage),
    POLICY: (policysession.CheckPolicyRequest, policysession.CheckPolicyResponse),
    HEALTH: (session.HealthCheckRequest, session.HealthCheckResponse),
}
